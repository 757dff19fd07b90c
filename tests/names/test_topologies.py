"""Names, import and export on real ranks: right with the patch, and seen to be wrong without it."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import RankError, Ranks

CHECK = "tests.names.case:check"
ONE_HOOK = "tests.names.one_hook:without_each"
WRAPPED: dict[str, Any] = {"world": 4, "topology": {"pp": 2, "ep": 2}}
NOTHING = {"names": 0, "import": 0, "export": 0}


@pytest.mark.parametrize(
    ("family", "topology", "provider"),
    [
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2}, {}, id="grouped experts"),
        pytest.param("qwen3_moe", {"ep": 2}, {}, id="EP without PP"),
        pytest.param("qwen3_moe", {"pp": 2}, {}, id="PP without EP"),
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2}, {"moe_grouped_gemm": False}, id="SequentialMLP"),
        pytest.param("qwen3_moe", {"tp": 2, "ep": 2, "etp": 2}, {}, id="expert TP"),
        pytest.param("qwen3_moe", {"pp": 2, "vpp": 2, "ep": 2}, {}, id="virtual stages"),
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2, "stages": [3, 1]}, {}, id="uneven stages"),
        pytest.param("deepseek_v3", {"pp": 2, "ep": 2}, {}, id="MLA, dense first layer, shared experts"),
        pytest.param("qwen3", {"tp": 2, "pp": 2}, {}, id="dense"),
    ],
)
def test_each_rank_holds_what_its_names_say(
    ranks: Ranks, checkpoint: Checkpoint, family: str, topology: dict[str, Any], provider: dict[str, Any]
) -> None:
    folder = str(checkpoint(family))
    world = _world(topology)
    for rank, report in enumerate(
        ranks(CHECK, world=world, checkpoint=folder, topology=topology, provider=provider)
    ):
        assert report["parameters"] > 10
        assert report["counts"] == NOTHING, f"rank {rank}: {report}"


@pytest.mark.parametrize(("plugin", "kind"), [("layer_numbers", "layer"), ("expert_numbers", "expert")])
def test_a_number_that_no_plugin_gives_is_an_error(
    ranks: Ranks, checkpoint: Checkpoint, plugin: str, kind: str
) -> None:
    with pytest.raises(
        RankError, match=rf"NamingError: .* on rank \d .*no plugin gives its global {kind} number"
    ):
        ranks(
            CHECK,
            world=4,
            checkpoint=str(checkpoint("qwen3_moe")),
            topology={"pp": 2, "ep": 2},
            off=[plugin],
        )


@pytest.mark.parametrize(
    ("plugin", "topology"), [("layer_numbers", {"ep": 2}), ("expert_numbers", {"pp": 2})]
)
def test_where_nothing_is_cut_along_its_axis_a_hook_may_be_off(
    ranks: Ranks, checkpoint: Checkpoint, plugin: str, topology: dict[str, Any]
) -> None:
    folder = str(checkpoint("qwen3_moe"))
    for report in ranks(CHECK, world=2, checkpoint=folder, topology=topology, off=[plugin]):
        assert report["counts"] == NOTHING


def one_hook_is_enough_for_its_own(report: dict[str, Any], topology: Topology) -> None:
    """The hook that is left is right, and a name that needs the other one is refused: never a silent local number."""
    for off, cut in (("layer_numbers", topology.pp > 1), ("expert_numbers", topology.ep > 1)):
        assert report[off]["wrong"] == []
        assert report[off]["numbers"] > 0
        assert (report[off]["refused"] > 0) is cut


def test_each_hook_answers_whether_the_other_is_there_or_not(ranks: Ranks, checkpoint: Checkpoint) -> None:
    topology = {"pp": 2, "ep": 2}
    for report in ranks(ONE_HOOK, world=4, checkpoint=str(checkpoint("qwen3_moe")), topology=topology):
        one_hook_is_enough_for_its_own(report, Topology(**topology))


def stock_and_patched(checkpoint: str, topology: dict[str, Any]) -> list[list[str]]:
    """Each parameter's name by the stock function and by the patch."""
    from megatron.bridge.models.conversion import model_bridge

    import bridge_plugins
    from bridge_plugins.topology import Topology
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology(**topology), load=False)

    def names() -> list[str]:
        return [
            model_bridge._megatron_local_name_to_global(
                trainer.model, trainer.model[0].config, trainer.bridge._model_bridge._unwrap_name(name), chunk
            )
            for chunk, model in enumerate(trainer.model)
            for name, _ in model.named_parameters()
        ]

    patched = names()
    bridge_plugins.load().revert("names")
    return [names(), patched]


@pytest.mark.parametrize("family", ["qwen3_moe", "deepseek_v3"])
def test_where_stock_is_right_the_text_is_the_same(ranks: Ranks, checkpoint: Checkpoint, family: str) -> None:
    topology = {"pp": 2, "vpp": 2, "ep": 2}
    for stock, patched in ranks(
        "tests.names.test_topologies:stock_and_patched",
        world=4,
        checkpoint=str(checkpoint(family)),
        topology=topology,
    ):
        assert len(stock) > 20
        assert stock == patched


def test_layers_in_another_class_keep_their_place(ranks: Ranks, checkpoint: Checkpoint) -> None:
    case = {**WRAPPED, "checkpoint": str(checkpoint("qwen3_moe")), "wrapper": "same names"}
    assert all(report["counts"] == NOTHING for report in ranks(CHECK, **case))
    stock = ranks(CHECK, **case, stock=True, exports=False)  # which old versions refuse
    assert all(report["counts"]["names"] for report in stock[2:])  # stage 1, without a word
    assert all(report["counts"]["import"] for report in stock[2:])


def test_checkpointed_layers_keep_their_place(ranks: Ranks, checkpoint: Checkpoint) -> None:
    case = {**WRAPPED, "checkpoint": str(checkpoint("qwen3_moe")), "wrapper": "checkpoint"}
    assert all(report["counts"] == NOTHING for report in ranks(CHECK, **case))
    with pytest.raises(RankError, match="No mapping found"):
        ranks(CHECK, **case, stock=True)


def _world(topology: dict[str, Any]) -> int:
    return Topology(**{**topology, "stages": tuple(topology.get("stages", ()))}).world

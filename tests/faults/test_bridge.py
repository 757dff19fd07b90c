"""Faults of the bridge: in its name mapping, in a shard on its way in, in the merge of shards on the way out."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Audited
from tests.faults.named import Named
from tests.stacks.models import NEW_ROPE


@pytest.mark.ci
@pytest.mark.parametrize(
    ("cell", "broken"),
    [
        pytest.param(
            "EP2", "local experts", marks=pytest.mark.fault(
                2, place="name mapping", rule="HASH",
                named="layers 0-3: experts 4-7 carry the weights of experts 0-3",
            ),
        ),
        pytest.param(
            "PP2 EP2", "local experts", marks=pytest.mark.fault(
                2, place="name mapping", rule="HASH",
                named="layers 0-3: experts 4-7 carry the weights of experts 0-3",
            ),
        ),
        pytest.param(
            "PP2 VPP2", "one chunk", marks=pytest.mark.fault(
                4, place="name mapping", rule="COV", named="model.layers: layers 2 to 3 of 4 never came",
            ),
        ),
        pytest.param(
            "PP2 of 5 layers", "a setting", marks=pytest.mark.fault(
                6, place="name mapping", rule="COV", named="model.layers: layers 4 of 5 never came",
            ),
        ),
        pytest.param(
            "PP2 VPP2", "left as it was", marks=pytest.mark.fault(
                8, place="shard", rule="HASH", named="layer 2: 9 tensors",
            ),
        ),
        pytest.param(
            "EP2", "one name for all", marks=pytest.mark.fault(
                11, place="name mapping", rule="COV", named="layer 3: experts 4 to 7 of 8 never came",
            ),
        ),
        pytest.param(
            "PP2 EP2", "one name for all", marks=pytest.mark.fault(
                11, place="name mapping", rule="COV", named="layer 0: experts 4 to 7 of 8 never came",
            ),
        ),
        pytest.param(
            "EP2 SequentialMLP", "local experts of SequentialMLP", marks=pytest.mark.fault(
                13, place="name mapping", rule="HASH",
                named="layers 0-3: experts 4-7 carry the weights of experts 0-3",
            ),
        ),
        pytest.param(
            "EP2", "count of nothing", marks=pytest.mark.fault(
                14, place="name mapping", rule="HASH",
                named="layers 0-3: experts 4-7 carry the weights of experts 1-4",
            ),
        ),
        pytest.param(
            "TP2 ETP2", "experts not gathered", marks=pytest.mark.fault(
                16, place="merge", rule="SHAPE",
                named="layers 0-3 experts 0-7: 32 tensors (model.layers.0.mlp.experts.0.gate_proj.weight, …) are [16, 64]",
            ),
        ),
        pytest.param(
            "TP1 ETP2", "experts not gathered", marks=pytest.mark.fault(
                19, place="merge", rule="SHAPE",
                named="layers 0-3 experts 0-7: 32 tensors (model.layers.0.mlp.experts.0.gate_proj.weight, …) are [16, 64]",
            ),
        ),
        pytest.param(
            "VL TP2 ETP2", "experts not gathered", marks=[NEW_ROPE, pytest.mark.fault(
                21, 23, place="merge", rule="SHAPE",
                named="layers 0-3: 4 tensors (model.language_model.layers.0.mlp.experts.gate_up_proj, …) are [8, 32, 64]",
            )],
        ),
        pytest.param(
            "TP2", "equal slabs", marks=pytest.mark.fault(
                24, place="merge", rule="HASH",
                named="layers 0-3: q_proj, k_proj and v_proj are cut as all q, all k, all v from a projection that lies by",
            ),
        ),
        pytest.param(
            "TP2", "gate and up of the whole", marks=pytest.mark.fault(
                26, place="merge", rule="HASH",
                named="layers 0-3: gate_proj and up_proj are the halves of 2 TP shards glued together, each of which has",
            ),
        ),
        pytest.param(
            "DeepSeek EP2", "no buffers", marks=pytest.mark.fault(
                36, place="stream", rule="SET",
                named="layer 1: model.layers.1.mlp.gate.e_score_correction_bias of deepseek_v3-default never came",
            ),
        ),
        pytest.param(
            "DeepSeek EP2", "no weight, no bias", marks=pytest.mark.fault(
                40, place="stream", rule="SET",
                named="layer 3: model.layers.3.mlp.gate.e_score_correction_bias of deepseek_v3-default never came",
            ),
        ),
        pytest.param(
            "wide EP2", "rounded", marks=pytest.mark.fault(
                55, place="shard", rule="HASH",
                named="layers 1-3: e_score_correction_bias went through bfloat16: 8 of 8 elements",
            ),
        ),
        pytest.param(
            "wide EP2", "a setting", marks=pytest.mark.fault(
                58, place="shard", rule="DTYPE",
                named="3 tensors (model.layers.1.mlp.gate.weight, …) are bfloat16, the checkpoint has float32",
            ),
        ),
        pytest.param(
            "TP2 padded", "a setting", marks=pytest.mark.fault(
                53, place="shard", rule="SHAPE",
                named="model.embed_tokens.weight: is [1024, 64], the checkpoint has [512, 64]: 512 rows of padded",
            ),
        ),
    ],
)  # fmt: skip
def test_the_export_is_found_and_named(audited: Audited, named: Named, cell: str, broken: str) -> None:
    named(audited(cell, broken))

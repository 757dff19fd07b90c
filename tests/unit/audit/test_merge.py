"""Files of ranks, read together; and what is wrong with a file is said with its name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from bridge_plugins.audit import read_summary
from bridge_plugins.audit.files import path_of
from bridge_plugins.audit.merge import merge
from bridge_plugins.audit.reading import read_versions
from bridge_plugins.errors import UsageError
from tests.unit.audit.model import summary, weights


def halves() -> list[dict[str, torch.Tensor]]:
    names = list(weights())
    return [{n: weights()[n] for n in part} for part in (names[:50], names[50:])]


def test_what_two_senders_handed_over_is_united() -> None:
    whole = summary(weights())
    merged = merge(summary(half, stage="wire", rank=rank, world=4) for rank, half in enumerate(halves()))
    assert merged.digest == whole.digest
    assert merged.header.merged == 2
    assert merged.findings == []


def test_two_senders_that_disagree_on_a_name_are_found() -> None:
    one, other = halves()
    other["lm_head.weight"] = torch.zeros(8, 16, dtype=torch.bfloat16)
    merged = merge(summary(half, stage="wire", rank=rank) for rank, half in enumerate((one, other)))
    assert str(merged.findings[0]).startswith(
        "UNIQ lm_head.weight: lm_head.weight was sent more than once with different"
    )


def test_a_finding_of_several_ranks_is_one_that_names_them() -> None:
    from bridge_plugins.audit import Finding

    summaries = [
        msgspec.structs.replace(
            summary(weights(), stage="wire", rank=rank),
            findings=[Finding("STATS", "x", "NaN", ranks=(rank,))],
        )
        for rank in (2, 0)
    ]
    assert merge(summaries).findings == [Finding("STATS", "x", "NaN", ranks=(0, 2))]


def test_what_was_yielded_and_never_sent_is_found_over_all_ranks(tmp_path: Path) -> None:
    for rank, half in enumerate(halves()):
        part = summary(half, stage="wire", rank=rank, world=2, partial="what this rank handed over")
        part.write(path_of_in(tmp_path, part))
        stream = summary(weights(), rank=rank, world=2)
        stream.write(path_of_in(tmp_path, stream))
    assert read_summary(tmp_path).findings == []
    (tmp_path / "v000001.wire.rank00001.json").unlink()
    found = read_summary(tmp_path).findings
    assert found
    assert all("handed to no transport by any rank" in finding.what for finding in found)


def path_of_in(folder: Path, one: object) -> Path:
    return folder / path_of(one).name  # type: ignore[arg-type]


def test_the_newest_version_is_read_and_ten_comes_after_nine(tmp_path: Path) -> None:
    for version in ("9", "10"):
        one = summary(weights(seed=int(version)), version=version)
        one.write(path_of_in(tmp_path, one))
    assert read_summary(tmp_path).header.version == "10"
    assert list(read_versions(tmp_path)) == ["9", "10"]


def test_files_of_another_kind_are_left_alone_and_a_cut_one_is_named(tmp_path: Path) -> None:
    summary(weights()).write(tmp_path / "summary.json")
    (tmp_path / "outcome.json").write_text('{"verdict": "fine"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    assert read_summary(tmp_path).header.version == "1"
    cut = tmp_path / "cut.json"
    cut.write_bytes((tmp_path / "summary.json").read_bytes()[:-20])
    with pytest.raises(UsageError, match=r"cut\.json is no summary"):
        read_summary(tmp_path)
    cut.write_bytes(b"")
    with pytest.raises(UsageError, match=r"cut\.json is no summary"):
        read_summary(tmp_path)


def test_a_folder_without_summaries_says_what_it_wants(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no summaries in .*BRIDGE_AUDIT_DIR"):
        read_summary(tmp_path)


def test_an_older_schema_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    summary(weights()).write(path)
    old = msgspec.json.decode(path.read_bytes())
    del old["findings"]
    old["header"]["schema"] = 1
    for field in ("world", "unversioned", "partial", "manifest", "seconds", "merged"):
        del old["header"][field]
    for record in old["records"].values():
        del record["bucket"], record["contiguous"]
    path.write_bytes(msgspec.json.encode(old))
    read = read_summary(path)
    assert read.digest == summary(weights()).digest
    assert (read.header.schema, read.header.partial, read.findings) == (1, "", [])


@pytest.mark.parametrize("version", ["../../etc/passwd", "step 7/of 9", "", "v" * 300])
def test_a_label_from_outside_names_no_folder(
    version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path))
    path = path_of(summary(weights(), version=version))
    assert path.parent == tmp_path
    summary(weights(), version=version).write(path)
    assert path.exists()

"""A bucket of ours, written without SGLang, read by SGLang's own reader."""

from __future__ import annotations

from tests.stacks.ranks import Ranks


def test_sglang_reads_a_bucket_of_every_kind_of_tensor(ranks: Ranks) -> None:
    ranks("tests.integration.cases:bucket_read_by_sglang", backend=None)

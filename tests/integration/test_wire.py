"""A bucket of ours, written without SGLang, read by SGLang's own reader."""

from __future__ import annotations

from bridge_plugins.engines.sglang.wire import same_fields
from tests.stacks.ranks import Ranks


def test_sglang_reads_a_bucket_of_every_kind_of_tensor(ranks: Ranks) -> None:
    [fields] = ranks("tests.integration.cases:bucket_read_by_sglang", backend=None)
    assert tuple(fields) == same_fields()

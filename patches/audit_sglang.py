"""The wire stage of whoever sends SGLang's flattened buckets (miles, slime, verl): the bucket's own slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.audit import wanted
from bridge_plugins.patching import Patch, Replace, wrapping


def _filled(original: Any, bucket: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A bucket that is filled on the trainer's side; one that an engine unpacks has no `named_tensors`."""
    from bridge_plugins.audit.handover import bucket_handed_over

    original(*args, **kwargs)
    named_tensors = args[0] if args else kwargs.get("named_tensors")
    if named_tensors:
        bucket_handed_over(bucket.flattened_tensor, lambda: _slices(bucket))


def _slices(bucket: Any) -> Iterator[tuple[str, Any]]:
    width = (
        bucket.flattened_tensor.element_size()
    )  # before SGLang's buckets were of bytes, they were of one dtype
    for meta in bucket.metadata:
        yield meta.name, (meta.start_idx * width, meta.shape, meta.dtype)


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    if not wanted():
        return []
    from bridge_plugins.audit.transports import MENDS

    bucket = "sglang.srt.weight_sync.tensor_bucket:FlattenedTensorBucket.__init__"
    signature = ("self", "named_tensors", "flattened_tensor", "metadata")
    return [Replace("audit_sglang", bucket, MENDS, wrapping(_filled), signature=signature)]

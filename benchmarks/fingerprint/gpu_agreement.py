"""Whether the kernels agree with the definition on the GPU itself, bit for bit, before their speed is measured."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from benchmarks.fingerprint.report import Report
from bridge_plugins.fingerprint import Fingerprint, FingerprintStream, FingerprintTable, Part
from bridge_plugins.fingerprint.part import resolve
from bridge_plugins.fingerprint.reference import fingerprint_reference

DEVICE = "cuda"
# One for each loop of the fast statistics: those of 8 bits use instructions that Triton's interpreter doesn't have.
# Each dtype compiles about 25 kernels; the other dtypes are tested in the interpreter.
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.int8, torch.uint8)
SHAPES = (
    (),
    (5000,),
    (4101,),
    (9, 640),
    (33, 518),
    (300, 259),
    (700, 8),
    (70000, 4),
    (1000, 3),
    (5, 3, 96),
    (513, 130),
)


def agreement(report: Report) -> None:
    """Dtypes in many shapes and strides: at rest, at hand, on streams of two threads; and a large one."""
    table = report.table("Agreement with the definition in plain torch, on the GPU")
    parts = [Part(tensor) for dtype in DTYPES for tensor in _tensors(dtype)]
    parts += [Part(torch.randn(64, 33, device=DEVICE), as_dtype=torch.bfloat16)]
    expected = [_by_definition(part) for part in parts]
    made = FingerprintTable(parts)
    found = made.run([part.tensor for part in parts]).read()
    table.add("at rest", _equal(found, expected), "equal", None, f"of {len(parts):,}")
    large = _large()
    found = FingerprintTable([large]).run([large.tensor]).read()
    table.add("600 MiB of 8-bit floats", _equal(found, [_by_definition(large)]), "equal", None, "of 1")
    del large
    recorder = FingerprintStream()
    for what in ("on a stream", "on a stream, kinds seen before"):
        _add(recorder, parts)
        table.add(what, _equal(recorder.read(), expected), "equal", None, f"of {len(parts):,}")
    torch.cuda._sleep(1 << 28)  # type: ignore[no-untyped-call]
    _add(recorder, parts)
    table.add("on a busy stream", _equal(recorder.read(), expected), "equal", None, f"of {len(parts):,}")
    whole = [index for index, part in enumerate(parts) if part.box is None and part.as_dtype is None]
    for what in ("all at hand", "all at hand, kinds seen before"):
        recorder.add_all([parts[index].tensor for index in whole])
        equal = _equal(recorder.read(), [expected[index] for index in whole])
        table.add(what, equal, "equal", None, f"of {len(whole):,}")
    thread = threading.Thread(target=_on_a_stream, args=(recorder, parts))
    thread.start()
    thread.join()
    table.add(
        "on another thread's stream", _equal(recorder.read(), expected), "equal", None, f"of {len(parts):,}"
    )


def _on_a_stream(recorder: FingerprintStream, parts: list[Part]) -> None:
    recorder.add(parts[0].tensor)  # this thread has not used the device yet
    recorder.read()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        _add(recorder, parts)


def _add(recorder: FingerprintStream, parts: list[Part]) -> None:
    for part in parts:
        recorder.add(part.tensor, at=part.box, as_dtype=part.as_dtype)


def _large() -> Part:
    """The highest tiles, all filled: no element but one is zero."""
    ones = torch.full((9600, 65536), 0.5, device=DEVICE).to(torch.float8_e4m3fn)
    ones[5, 7] = 0
    return Part(ones)


def _tensors(dtype: torch.dtype) -> list[Tensor]:
    """Random bits, NaN and Inf too; and weights as they mostly are."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    out = []
    for shape in SHAPES:
        size = (*shape, dtype.itemsize)
        raw = torch.randint(0, 256, size, dtype=torch.uint8, device=DEVICE, generator=generator)
        out.append(raw.view(dtype).reshape(shape))
    many, stacked = out[-1], out[-2]
    for shape in SHAPES[-7:]:
        values = torch.randn(shape, device=DEVICE, generator=generator)
        values[::3] = 0
        out.append(values.to(dtype) if dtype.is_floating_point else (20 * values).to(torch.int8).view(dtype))
    return [*out, many.t(), many[::2, ::3], many[3:], stacked.transpose(0, 1), stacked[2].t()]


def _by_definition(part: Part) -> Fingerprint:
    block = resolve(part)
    return fingerprint_reference(block.view, block.box, block.held, block.taken, statistics=True)


def _equal(found: list[Fingerprint], expected: list[Fingerprint]) -> int:
    return sum(_same(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


def _same(mine: Fingerprint, theirs: Fingerprint) -> bool:
    a, b = mine.statistics, theirs.statistics
    if a is None or b is None:
        return False
    counts = (a.absmax, a.zeros, a.nans, a.infs, mine.lossy) == (
        b.absmax,
        b.zeros,
        b.nans,
        b.infs,
        theirs.lossy,
    )
    near = (
        a.sum_of_squares == b.sum_of_squares
        or abs(a.sum_of_squares - b.sum_of_squares) <= 1e-5 * b.sum_of_squares
    )
    return mine == theirs and counts and near

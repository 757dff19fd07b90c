"""How this package compiles, and the few things that numba has no word for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic as _intrinsic

from bridge_plugins.fingerprint import keys

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile without the GIL; sums of floats may be reordered; cached on disk where that can be done."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
        # numba stamps what it caches with the function's own file; these call each other across files.
        dispatcher._cache._cache_file._source_stamp = _sources()
    except (RuntimeError, AttributeError):  # no folder for a cache can be written, or numba's inside changed
        dispatcher = numba.njit(**options)(function)
    return dispatcher  # type: ignore[no-any-return]


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's decorator, typed."""
    return _intrinsic(function)


@cache
def _sources() -> str:
    """A digest of this package's sources."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(keys.__file__)]
    return hashlib.blake2b(b"".join(file.read_bytes() for file in files)).hexdigest()


@intrinsic
def pointer(_context: Any, address: Any) -> Any:
    """An address as a pointer, for numba.carray."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


def _load(width: int) -> Any:
    @intrinsic
    def load(_context: Any, address: Any) -> Any:
        """The unsigned integer at an address, aligned or not."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            typed = builder.inttoptr(args[0], ir.IntType(8 * width).as_pointer())
            return (
                builder.zext(builder.load(typed, align=1), ir.IntType(64))
                if width < 8
                else builder.load(typed, align=1)
            )

        return types.uint64(address), generate

    return load


load_1, load_2, load_4, load_8 = (_load(width) for width in (1, 2, 4, 8))


@compiled
def load(address: Any, width: Any) -> Any:
    """The bits of the element of `width` bytes at an address, as uint64."""
    if width == 1:
        return load_1(address)
    if width == 2:
        return load_2(address)
    if width == 4:
        return load_4(address)
    return load_8(address)


@intrinsic
def as_float32(_context: Any, _bits: Any) -> Any:
    """uint32 bits read as float32."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def as_float64(_context: Any, _bits: Any) -> Any:
    """uint64 bits read as float64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate

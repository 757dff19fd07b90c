"""How this package compiles, and the few things that numba has no word for. See `machine_code`: it is compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic as _intrinsic

F = TypeVar("F", bound=Callable[..., Any])

#: Sums of floats may be reordered. Nothing is allocated on numba's heap, and there is no way back into Python: what comes
#: out is machine code that needs neither.
OPTIONS: Final = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compiled(function: F) -> F:
    """Compile for others that are compiled."""
    return numba.njit(**OPTIONS)(function)  # type: ignore[no-any-return]


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's decorator, typed."""
    return _intrinsic(function)


@intrinsic
def pointer(_context: Any, address: Any) -> Any:
    """An address as a pointer, for numba.carray."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


def room(nbytes: int) -> Any:
    """A function that gives a pointer to so many bytes on its caller's stack, with anything in them."""

    @intrinsic
    def on_the_stack(_context: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            with builder.goto_entry_block():  # once for each call of the caller, loops or not
                made = builder.alloca(ir.ArrayType(ir.IntType(8), nbytes))
            made.align = 64
            return builder.bitcast(made, ir.IntType(8).as_pointer())

        return types.voidptr(), generate

    return on_the_stack


def _load(width: int) -> Any:
    @intrinsic
    def load(_context: Any, address: Any) -> Any:
        """The unsigned integer at an address, aligned or not."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            typed = builder.inttoptr(args[0], ir.IntType(8 * width).as_pointer())
            bits = builder.load(typed, align=1)
            return builder.zext(bits, ir.IntType(64)) if width < 8 else bits

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

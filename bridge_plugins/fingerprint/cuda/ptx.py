# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Instructions that Triton has no word for. The interpreter has none of them: see `device.has_ptx`."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel

_UNPACK = tl.constexpr("""{
.reg .b16 a, b, x, y, z, w; .reg .b32 p, q;
mov.b32 {a, b}, $4;
cvt.rn.f16x2.e4m3x2 p, a; cvt.rn.f16x2.e4m3x2 q, b;
mov.b32 {x, y}, p; mov.b32 {z, w}, q;
cvt.f32.f16 $0, x; cvt.f32.f16 $1, y; cvt.f32.f16 $2, z; cvt.f32.f16 $3, w;
}""")


@kernel()
def four_e4m3(w: tl.tensor) -> tl.tensor:
    """The four numbers of each word, float32."""
    return tl.inline_asm_elementwise(
        _UNPACK,
        "=f,=f,=f,=f,r",
        [w],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@kernel()
def add_squares_of_bytes(w: tl.tensor, squares: tl.tensor, SIGNED: tl.constexpr) -> tl.tensor:
    """Of the four bytes of each word, to uint32."""
    return tl.inline_asm_elementwise(
        "dp4a.s32.s32 $0, $1, $1, $2;" if SIGNED else "dp4a.u32.u32 $0, $1, $1, $2;",
        "=r,r,r",
        [w, squares],
        dtype=tl.uint32,
        is_pure=True,
        pack=1,
    )


@kernel()
def larger_halves(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """The larger of the two uint16 in each uint32."""
    return tl.inline_asm_elementwise(
        "max.u16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.uint32, is_pure=True, pack=1
    )

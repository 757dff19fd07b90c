"""The kernel as machine code: numba compiles it once, a file keeps it, and whoever finds the file needs no numba.

To import numba and load what its own cache keeps takes most of a second; this takes a tenth of that.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]

from bridge_plugins.fingerprint import geometry, keys
from bridge_plugins.whole_file import write_bytes

logger = logging.getLogger(__name__)

ARGUMENTS: Final = 5
_NAME: Final = "measure_units"
_DIGEST: Final = 32  # bytes in front of the code: what is cut or damaged is never run

# What numba counts references to its heap with. The kernel has nothing there.
_NO_HEAP: Final = "\n".join(
    f"define void @NRT_{word}(i8* %p) {{ ret void }}" for word in ("incref", "decref")
)
_RETURNED: Final = ctypes.byref(ctypes.c_void_p())  # where it writes that it returns None

_lock = threading.Lock()
_loaded: list[Any] = []  # the function, and the engine that owns its memory


def measure_units(*arguments: int) -> None:
    """Run `kernel.measure_units`, without the GIL. The first call of a process loads it, or compiles it before that."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.extend(_load())
    _loaded[0](_RETURNED, _RETURNED, *arguments)


def _load() -> tuple[Any, Any]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True
    )
    made_for = f"{llvmlite.__version__} {machine.triple} {cpu} {features}"
    name = f"kernel-{_digest(_sources() + made_for.encode()).hex()[:32]}.o"
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(_kept(name) or _compile(machine, name)))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * ARGUMENTS)
    return kind(engine.get_function_address(_NAME)), engine


def _compile(machine: Any, name: str) -> bytes:
    from bridge_plugins.fingerprint.cpu.kernel import assembly  # numba

    module = llvm.parse_assembly(assembly(_NAME))
    module.link_in(llvm.parse_assembly(_NO_HEAP))
    code: bytes = machine.emit_object(module)
    for folder in _folders():
        try:
            write_bytes(_digest(code) + code, folder / name)
            break
        except OSError:  # read-only, say
            continue
    else:
        logger.warning(
            "the fingerprint's kernel can be kept nowhere: every process compiles it, for some seconds"
        )
    return code


def _kept(name: str) -> bytes | None:
    for folder in _folders():
        try:
            content = (folder / name).read_bytes()
        except OSError:
            continue
        if _digest(content[_DIGEST:]) == content[:_DIGEST]:
            return content[_DIGEST:]
    return None


def _folders() -> Iterator[Path]:
    """Beside Python's own compiled files, or in the user's cache where the package can't be written to."""
    yield Path(__file__).parent / "__pycache__"
    with contextlib.suppress(RuntimeError):  # there is no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "megatron-bridge-plugins"


def _sources() -> bytes:
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(keys.__file__), Path(geometry.__file__)]
    return b"".join(file.read_bytes() for file in files)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()

"""The fingerprint's kernels, loaded for a command line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without_scipy() -> Iterator[None]:
    """numba finds no SciPy meanwhile.

    It looks for SciPy's BLAS when its first kernel is loaded, which takes as long as numba itself and the kernels
    together. Nothing here multiplies matrices in numba. A process that has SciPy already keeps it.
    """
    name = "scipy.linalg"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment] # what makes `import` say that there is none
    try:
        yield
    finally:
        sys.modules.pop(name, None)

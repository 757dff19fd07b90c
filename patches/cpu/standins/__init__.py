"""Stand-ins for packages that can't be installed without a GPU. A real package, where there is one, always wins."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from bridge_plugins.patching import Enter, Patch

_PACKAGES = Path(__file__).parent / "packages"


class StandInFinder:
    """The last finder that Python asks: it is reached only when no real package of that name was found."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target  # the package's own __path__ finds its submodules
        if name != self.package:
            return None
        folder = _PACKAGES / name
        return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])


@contextlib.contextmanager
def offer(package: str) -> Iterator[None]:
    """Offer the stand-in for `package` while the context is open."""
    finder = StandInFinder(package)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def in_use() -> list[str]:
    """The packages that this process has imported as stand-ins."""
    folders = {str(_PACKAGES / folder.name): folder.name for folder in _PACKAGES.iterdir() if folder.is_dir()}
    return sorted(
        name for folder, name in folders.items() if (m := sys.modules.get(name)) and folder in getattr(m, "__path__", [])
    )


PATCHES: list[Patch] = [
    Enter(
        "cpu.transformer_engine",
        "torch",
        "transformer_engine can't be built without CUDA, and the bridge imports it without asking",
        lambda: offer("transformer_engine"),
    )
]

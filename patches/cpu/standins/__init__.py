"""Stand-ins for packages that can't be installed without a GPU. A real package, where there is one, always
wins.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, version
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from bridge_plugins.patching import Enter, Patch

_PACKAGES = Path(__file__).parent / "packages"


class StandInFinder:
    """The last finder that Python asks: it is reached only when no real package of that name was found.

    As a context it is asked while the context is open.
    """

    def __init__(self, package: str) -> None:
        self.package = package

    def __enter__(self) -> None:
        sys.meta_path.append(self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target  # the package's own __path__ finds its submodules
        if name != self.package:
            return None
        folder = _PACKAGES / name
        return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        """What ``importlib.metadata.version`` asks: callers that decide by a package's version ask that."""
        if context.name and context.name.replace("-", "_").lower() == self.package:
            return (Distribution.at(folder) for folder in _PACKAGES.glob(f"{self.package}-*.dist-info"))
        return ()


#: ``with offer("package"): …``, or entered once for the rest of the process.
offer = StandInFinder


def in_use() -> list[str]:
    """The packages that this process has imported as stand-ins."""
    folders = {str(_PACKAGES / folder.name): folder.name for folder in _PACKAGES.iterdir() if folder.is_dir()}
    return sorted(
        name
        for folder, name in folders.items()
        if (m := sys.modules.get(name)) and folder in getattr(m, "__path__", [])
    )


def _needs_modelopt() -> bool:
    """Later versions ask whether the package is there: with a stand-in they would be told that it is."""
    try:
        return version("megatron-bridge").startswith(("0.4.", "0.5."))
    except PackageNotFoundError:
        return False


PATCHES: list[Patch] = [
    Enter(
        "cpu.transformer_engine",
        "torch",
        "transformer_engine can't be built without CUDA, and the bridge imports it without asking",
        lambda: offer("transformer_engine"),
    )
]
if _needs_modelopt():
    PATCHES.append(
        Enter(
            "cpu.modelopt",
            "torch",
            "megatron-bridge 0.4 and 0.5 import modelopt without asking",
            lambda: offer("modelopt"),
        )
    )

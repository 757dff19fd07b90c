"""Links the distributions of the environment that runs this into another one's site-packages, but for those that it
has already and those that are named: ``python link_packages.py SITE_PACKAGES [NAME-PREFIX …]``.

A distribution that is left out can't be imported there. Nothing is copied.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path


def link(there: Path, left_out: tuple[str, ...]) -> None:
    """Link each top-level entry of each distribution; inside a folder that both have (``nvidia``), what it lacks."""
    present = {found.name.lower() for found in metadata.distributions(path=[str(there)])}
    for distribution in metadata.distributions():
        name = distribution.name.lower()
        if name not in present and not name.startswith(left_out):
            for path in {
                file.parts for file in distribution.files or () if file.parts[0] not in ("..", "bin")
            }:
                _link(Path(str(distribution.locate_file(""))), there, path)


def _link(here: Path, there: Path, parts: tuple[str, ...]) -> None:
    for depth in range(1, len(parts) + 1):
        target = there.joinpath(*parts[:depth])
        if target.is_symlink() or "__pycache__" in parts:
            return
        if not target.exists():
            target.symlink_to(here.joinpath(*parts[:depth]))
            return


if __name__ == "__main__":
    link(Path(sys.argv[1]), tuple(sys.argv[2:]))

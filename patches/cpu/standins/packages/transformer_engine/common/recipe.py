"""Names that fp8 settings are written with. There is no fp8 here: using one is refused in ``pytorch.fp8``."""

from __future__ import annotations

from typing import Any


class Format:
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    HYBRID = "hybrid"


class Recipe:
    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


class DelayedScaling(Recipe):
    pass

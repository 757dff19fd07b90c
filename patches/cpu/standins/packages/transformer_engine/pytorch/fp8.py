"""The switches of fp8, all off: there is none in this stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class FP8GlobalStateManager:
    @staticmethod
    def is_fp8_enabled() -> bool:
        return False

    @staticmethod
    def is_fp8_calibration() -> bool:
        return False

    @staticmethod
    def get_fp8_recipe() -> None:
        return None

    @staticmethod
    def reset() -> None:
        pass


@contextmanager
def fp8_autocast(enabled: bool = False, **_: Any) -> Iterator[None]:
    if enabled:
        raise NotImplementedError("there is no fp8 in the stand-in for transformer_engine")
    yield


@contextmanager
def fp8_model_init(enabled: bool = False, **_: Any) -> Iterator[None]:
    if enabled:
        raise NotImplementedError("there is no fp8 in the stand-in for transformer_engine")
    yield

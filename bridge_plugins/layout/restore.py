"""How a model gets its weights back after a probe, and the proof that it did."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from bridge_plugins.layout.prints import prints
from bridge_plugins.layout.reachable import Held, reachable

#: What is no larger than this is copied in any case: scalars, norms, what no checkpoint holds.
SMALL_BYTES = 1 << 20


class Restore(Protocol):
    """Made before a probe."""

    def __call__(self) -> list[str]:
        """Put the very tensors back where they hung, with the bits they had; give the paths where that failed."""


class FromCopy:
    """From a copy of every tensor, in a file without a name that is mapped into memory and ends with this object.

    For weights that are nowhere else. A model that lies in this machine's memory isn't there twice: the system writes
    the file's pages out when it needs the room.
    """

    def __init__(self, model: nn.Module) -> None:
        self._held = list(reachable(model))
        self._copies = _mapped([held.tensor for held in self._held])
        for held, copy in zip(self._held, self._copies, strict=True):
            copy.copy_(held.tensor.detach())

    @torch.no_grad()
    def __call__(self) -> list[str]:
        pairs = zip(self._held, self._copies, strict=True)
        return [held.path for held, copy in pairs if not _same_again(held, copy)]


class FromReload:
    """By loading the weights once more: no copy is kept but of small tensors, and fingerprints prove the rest.

    Args:
        model: holds what `reload` gives it, as it is after a start from a checkpoint.
        reload: loads the weights through the holder's own loader.
    """

    def __init__(self, model: nn.Module, reload: Callable[[], None]) -> None:
        self._model, self._reload = model, reload
        self._held = list(reachable(model))
        self._before = prints(self._held)
        self._small = {
            held.path: held.tensor.detach().to("cpu", copy=True)
            for held in self._held
            if held.tensor.nbytes <= SMALL_BYTES
        }

    @torch.no_grad()
    def __call__(self) -> list[str]:
        if (
            prints(reachable(self._model)) == self._before
        ):  # a loader that refused at once has written nothing
            return []
        self._reload()
        back = []
        for held in self._held:
            now = self._small.get(held.path, _now(held))
            # What the loader has put in the place of a tensor holds the bits that belong into the old one.
            if hang_back(held) and now is not None and (now is held.tensor or put_bits(held.tensor, now)):
                back.append(held)
        after = prints(back)
        return [held.path for held in self._held if after.get(held.path) != self._before[held.path]]


def _same_again(held: Held, copy: Tensor) -> bool:
    back = hang_back(held) and put_bits(held.tensor, copy)
    return back and torch.equal(bits(held.tensor.detach().cpu()), bits(copy))


def _now(held: Held) -> Tensor | None:
    try:
        now = held.container[held.key]
    except (KeyError, IndexError):
        return None
    return now if isinstance(now, Tensor) else None


def hang_back(held: Held) -> bool:
    """A loader may have put a new tensor there; who else knows the old one must see it again."""
    if isinstance(held.container, tuple):
        return bool(held.container[held.key] is held.tensor)
    held.container[held.key] = held.tensor
    return True


def put_bits(tensor: Tensor, copy: Tensor) -> bool:
    """Copy if that can be done without a change of a bit."""
    if tensor.shape != copy.shape or tensor.dtype != copy.dtype:
        return False
    tensor.data.copy_(copy)
    return True


def bits(tensor: Tensor) -> Tensor:
    """The bytes of `tensor`, flat, in row-major order."""
    return tensor.contiguous().flatten().view(torch.uint8)


def _mapped(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors of the same shapes and dtypes, one after the other in a temporary file."""
    sizes = [
        -(-tensor.nbytes // 64) * 64 for tensor in tensors
    ]  # each begins at a multiple of any element's size
    with tempfile.NamedTemporaryFile(prefix="bridge-layout-") as file:
        file.truncate(max(sum(sizes), 1))
        room = torch.from_file(file.name, shared=True, size=max(sum(sizes), 1), dtype=torch.uint8)
    pieces = torch.split(room[: sum(sizes)], sizes)
    return [
        piece[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for piece, tensor in zip(pieces, tensors, strict=True)
    ]

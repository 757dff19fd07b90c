"""The two digests of each layer of what a rank holds: one pass over its memory, then sums of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.audit.place import place_of
from bridge_plugins.engines.sglang.answer import pack
from bridge_plugins.engines.sglang.holders import Agreement
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.errors import EngineError
from bridge_plugins.fingerprint import FingerprintTable, Part
from bridge_plugins.fingerprint.keys import MASK64
from bridge_plugins.fingerprint.rollup import tensor_key
from bridge_plugins.layout.sources import Source

LOSSY = 3  #: column of `Measured.counts`


class LayerDigests:
    """Made once for one way of sending; `run` as often as weights come.

    Args:
        agreement: which of this rank's blocks count, and for what.
        sources: the HF tensors.
        held: this rank's tensors by path, as blocks see them.
        sent: the dtypes of the stream.
    """

    def __init__(
        self, agreement: Agreement, sources: Sequence[Source], held: Mapping[str, Tensor], sent: Sent
    ) -> None:
        self.sent = sent
        places = {source.name: place_of(source.name) for source in sources}
        in_order = sorted(places.values(), key=lambda place: place.sort_key)
        self.names = list(dict.fromkeys(place.layer for place in in_order))
        index = {name: number for number, name in enumerate(self.names)}
        numbers = {source.name: number for number, source in enumerate(sources)}
        self._open = np.zeros(len(self.names), np.int64)

        def key(source: Source) -> int:
            return tensor_key(places[source.name].inside, sent.dtype(source), source.shape)

        parts: list[Part] = []
        rows: list[int] = []
        layers: list[int] = []
        keys: list[int] = []
        self._paths: list[str] = []
        for row, block in enumerate(agreement.blocks):
            layer = index[places[block.source.name].layer]
            part = sent.part(block, held[block.path])
            if part is None or not agreement.whole[numbers[block.source.name]]:
                self._open[layer] += 1
                continue
            parts.append(part)
            rows.append(row)
            layers.append(layer)
            keys.append(key(block.source))
            self._paths.append(block.path)
        self._table = FingerprintTable(parts, statistics=False)
        # All parts layer by layer, so that each layer's sum is one piece of an array.
        self._order = np.argsort(layers, kind="stable")
        self._layers, self._starts = np.unique(np.array(layers, np.int64)[self._order], return_index=True)
        terms = np.array(keys, np.uint64)
        self._primary = np.where(agreement.primary[rows], terms, np.uint64(0))[:, None]
        self._replica = terms[:, None] * agreement.weights[rows]
        self.keys = [0] * len(self.names)
        for number, source in enumerate(sources):
            if agreement.whole[number]:
                layer = index[places[source.name].layer]
                self.keys[layer] = (self.keys[layer] + key(source)) & MASK64

    def run(self, held: Mapping[str, Tensor]) -> bytes:
        """Both digests of every layer, packed (see `answer.pack`).

        Raises `EngineError` if a tensor has another shape since.
        """
        try:
            measured = self._table.run([held[path] for path in self._paths]).measured()
        except ValueError as error:
            raise EngineError(
                f"the engine's tensors are not what the layout was found out for: {error}"
            ) from error
        primary = self._sum(self._primary * measured.lanes)
        replicas = self._sum((self._replica * measured.lanes).sum(1, dtype=np.uint64))
        lossy = self._sum((measured.counts[:, LOSSY] > 0).astype(np.uint64))
        open_parts = np.minimum(self._open + lossy.astype(np.int64), 255)
        return pack(primary, replicas, open_parts.astype(np.uint8))

    def _sum(self, terms: NDArray[np.uint64]) -> NDArray[np.uint64]:
        sums = np.zeros((len(self.names), *terms.shape[1:]), np.uint64)
        if len(self._starts):
            sums[self._layers] = np.add.reduceat(terms[self._order], self._starts)
        return sums

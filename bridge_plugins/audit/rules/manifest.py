"""MANIFEST: all ranks saw the same tensors, in the same order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.rules.rule import Context, Witness
from bridge_plugins.audit.summary import Summary


def typical(witnesses: Sequence[Witness]) -> Witness:
    """The first of the largest number of ranks that agree: one odd rank is named, whichever it is."""
    votes = Counter((witness.digest, witness.manifest) for witness in witnesses)
    most, _ = votes.most_common(1)[0]
    return next(witness for witness in witnesses if (witness.digest, witness.manifest) == most)


class Manifest:
    """Ranks that disagree with most of the others on (order, name, dtype, shape, bytes), or on the bits.

    Sees a rank whose gather gave it other weights, or that met the collectives in another order; layers are named.
    Compares digests, so that its cost does not grow with the model. Cannot see a fault that all ranks share.
    """

    code = "MANIFEST"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:  # noqa: ARG002
        if not context.witnesses:
            return
        first = typical(context.witnesses)
        apart: dict[tuple[str, ...], list[int]] = defaultdict(list)
        order: list[int] = []
        for other in context.witnesses:
            if other.digest != first.digest:
                names = sorted(first.layers.keys() | other.layers.keys())
                # Layers are gathered only where the digests differ.
                differ = (
                    tuple(n for n in names if first.layers.get(n) != other.layers.get(n)) if names else ()
                )
                apart[differ].append(other.rank)
            elif other.manifest != first.manifest:
                order.append(other.rank)
        for layers, ranks in apart.items():
            where = "model" if not layers else ", ".join(layers[:3]) + (", …" if len(layers) > 3 else "")
            yield Finding(
                self.code, where, f"ranks exported other weights than rank {first.rank}",
                "every rank of an export yields the same full tensors: look at these ranks' collectives",
                ranks=tuple(ranks), expected=first.digest, found="another digest",
            )  # fmt: skip
        if order:
            yield Finding(
                self.code, "model", f"ranks exported in another order than rank {first.rank}",
                "a transport that gathers by order mixes tensors up: sort the conversion tasks alike on all ranks",
                ranks=tuple(order), expected=first.manifest, found="another order",
            )  # fmt: skip

"""Every hypothesis, the cheap ones first, asked for one tensor after another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.inside import (
    adapters,
    axes,
    cast,
    elements,
    extent,
    fused_qkv,
    glued,
    joined,
    low_rank,
    plus_one,
    repeated,
    reshaped,
    scaled,
    shard_order,
    transposed,
)
from bridge_plugins.audit.causes.inside.case import Case, Tensors
from bridge_plugins.audit.causes.wording import kind, where
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record

Hypothesis = Callable[[Case], str | None]

HYPOTHESES: tuple[Hypothesis, ...] = (
    cast.explain,
    elements.explain,
    extent.explain,
    reshaped.explain,
    glued.explain,
    transposed.explain,
    plus_one.explain,
    scaled.explain,
    adapters.explain,
    low_rank.explain,
    repeated.explain,
    fused_qkv.explain,
    shard_order.explain,
    axes.explain,
)

_PATIENCE = 3  #: tensors of one kind that nothing explains, before that kind is given up


def explain(
    wrong: Mapping[str, Record],
    reference: Mapping[str, Record],
    found: Tensors,
    expected: Tensors,
    delta: Tensors,
) -> Iterator[Cause]:
    """One cause for each sentence, over all tensors that it explains.

    Args:
        found, expected: the tensors of `wrong` and of `reference` by name, where they are at hand.
        delta: what merging an adapter adds to a tensor, by the tensor's name.
    """
    said: dict[str, list[str]] = defaultdict(list)
    for sentence, members in joined.explain(wrong, reference, found, expected):
        said[sentence] += members
    explained = {name for names in said.values() for name in names}
    helped: dict[str, Hypothesis] = {}
    failed: Counter[str] = Counter()
    for name, record in wrong.items():
        kind_of_name = kind(place_of(name))
        if name not in reference or name in explained or failed[kind_of_name] >= _PATIENCE:
            continue
        case = Case(record, reference[name], found(name), expected(name), delta(name))
        first = helped.get(kind_of_name)  # what explained its like explains it, too
        for hypothesis in (*([first] if first else []), *HYPOTHESES):
            if what := hypothesis(case):
                said[what].append(name)
                helped[kind_of_name] = hypothesis
                break
        else:
            failed[kind_of_name] += 1
    for what, names in said.items():
        yield Cause(where(names), what, tuple(names))

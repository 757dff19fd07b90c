"""The audit's companion for gradients: before an optimizer step, which are missing, zero or not finite, and how large."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from bridge_plugins.audit.exchange import merge_ranks
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint import FingerprintTable, Part
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.pending import PendingFingerprints
from bridge_plugins.names.mapping import local_to_global
from bridge_plugins.names.param_name import ParamName
from bridge_plugins.parity.families import Group, group_of
from bridge_plugins.parity.gradient_counts import Counts, Gradients, Told
from bridge_plugins.parity.gradient_merge import Merge

NAMED = 5  #: parameters that a rank names of each kind; all of them are counted


class GradientAudit:
    """Looks at the gradients of this rank's parameters: Megatron's ``main_grad`` where there is one, else ``grad``.

    Every rank makes one when the model is built, and looks between the last backward pass and the optimizer step, which
    clips gradients in place::

        gradients = GradientAudit(model)
        gradients.look()
        optimizer.step()
        found = gradients.finish(str(step), group)

    Norms count each element of the model once, as Megatron's own does. With a distributed optimizer over several replicas
    each of these holds the reduced gradient of its own shard only: counts are right then, norms are not.

    Args:
        chunks: this rank's model, one chunk per virtual stage.

    Raises:
        NamingError: for a parameter whose layer or expert number in the whole model nothing tells.
    """

    def __init__(self, chunks: Sequence[Any]) -> None:
        self._parameters: list[Tensor] = []
        self._names: list[str] = []
        self._groups: list[Group] = []
        for chunk, model in enumerate(chunks):
            for local, parameter in model.named_parameters():
                name = local_to_global(chunks, chunks[0].config, local, chunk)
                self._parameters.append(parameter)
                self._names.append(name)
                self._groups.append(group_of(ParamName.parse(name)))
        self._table: FingerprintTable | None = None
        self._pending: PendingFingerprints | None = None
        self._held: list[int] = []  # which parameters had a gradient

    def look(self) -> None:
        """Queue one pass over the gradients. Issues no collective, and doesn't wait for the device."""
        gradients = [_gradient(parameter) for parameter in self._parameters]
        self._held = [index for index, gradient in enumerate(gradients) if gradient is not None]
        tensors = [gradient for gradient in gradients if gradient is not None]
        if self._table is not None:
            try:
                self._pending = self._table.run(tensors)
                return
            except ValueError:  # others have gradients than the last time
                pass
        self._table = FingerprintTable([Part(tensor) for tensor in tensors])
        self._pending = self._table.run(tensors)

    def finish(self, step: str, group: Any = None) -> Gradients:
        """What was looked at last, over all ranks. Every rank of `group` must call it, and gets the same.

        Args:
            step: for the report.
            group: a CPU process group of all ranks of the trainer; None for the default group, if there is one.

        Raises:
            LayoutError: on every rank, with what went wrong on one of them.
        """
        merge = Merge()
        return merge_ranks(self._tell, merge.add, lambda: merge.gradients(step), lambda found: found, group)

    def _tell(self) -> Told:
        if self._pending is None:
            raise UsageError("nothing was looked at: call look() before the optimizer step")
        measured, self._pending = self._pending.measured(), None
        entry: list[int | None] = [None] * len(self._parameters)
        for position, index in enumerate(self._held):
            entry[index] = position
        groups: defaultdict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
        missing, nonfinite = [], []
        for index, group in enumerate(self._groups):
            counts = self._count(index, entry[index], measured)
            groups[group.layer][group.family] += counts
            missing += [self._names[index]] * counts.missing
            nonfinite += [self._names[index]] * counts.nonfinite
        return Told({layer: dict(families) for layer, families in groups.items()},
                    tuple(missing[:NAMED]), tuple(nonfinite[:NAMED]))  # fmt: skip

    def _count(self, index: int, position: int | None, measured: Measured) -> Counts:
        parameter = self._parameters[index]
        if not parameter.requires_grad:
            return Counts(1, frozen=1)
        if position is None:
            return Counts(1, missing=1)
        zeros, nans, infs, _ = measured.counts[position].tolist()
        squares = float(measured.sum_of_squares[position]) if _counts_once(parameter) else 0.0
        return Counts(
            1, zero=int(zeros == parameter.numel()), nonfinite=int(nans + infs > 0), squares=squares
        )


def _gradient(parameter: Any) -> Tensor | None:
    """A frozen parameter has none, whatever is left there of before it was frozen."""
    if not parameter.requires_grad:
        return None
    main: Tensor | None = getattr(parameter, "main_grad", None)
    return parameter.grad if main is None else main


def _counts_once(parameter: Any) -> bool:
    """Whether this rank's copy, of all replicas, is the one that goes into a norm."""
    from megatron.core import parallel_state

    if getattr(parameter, "shared", False):  # the embedding's copy in the last stage of a tied model
        return False
    whole = not getattr(parameter, "tensor_model_parallel", False)
    if getattr(parameter, "allreduce", True):
        replica = parallel_state.get_data_parallel_rank(with_context_parallel=True)
        copy = parallel_state.get_tensor_model_parallel_rank() if whole else 0
    else:  # an expert's
        replica = parallel_state.get_expert_data_parallel_rank()
        copy = parallel_state.get_expert_tensor_parallel_rank() if whole else 0
    return bool(replica == copy == 0)

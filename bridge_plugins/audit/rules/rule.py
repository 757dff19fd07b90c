"""What a rule is, and what it may know beside the summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary


@dataclass(frozen=True)
class Witness:
    """What one rank saw of a version: enough to tell that it saw the same, and small whatever the model's size.

    `layers` are the digests of its layers by name.
    """

    rank: int
    version: str
    digest: str
    manifest: str
    tensors: int
    layers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, summary: Summary, rank: int) -> Witness:
        """Of a rank's summary."""
        layers = {layer.name: layer.digest for layer in summary.layers}
        tensors = sum(layer.tensors for layer in summary.layers)
        header = summary.header
        return cls(rank, header.version, summary.digest, header.manifest, tensors, layers)


@dataclass(frozen=True)
class Context:
    """What a summary is judged against.

    Attributes:
        previous: the version before, of the same stage.
        trained: whether an optimizer step was made since `previous` (or since the checkpoint was loaded, if there
            is no previous version); None if nobody knows.
        repeated: names that came more than once in the stream; `conflicting` those handed to the transport more
            than once with different bits.
        unread: names whose tensors could not be fingerprinted, and why.
        wire: what was handed to the transport, if that was seen.
        declared: what the user says of tensors.
        witnesses: what each rank saw.
    """

    expected: Expected | None = None
    previous: Summary | None = None
    trained: bool | None = False
    repeated: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()
    unread: dict[str, str] = field(default_factory=dict)
    wire: Summary | None = None
    declared: Declared = field(default_factory=Declared)
    witnesses: tuple[Witness, ...] = ()

    def last(self, summary: Summary) -> Summary:
        """The last stage present: what leaves is what counts, and frameworks change the stream on its way."""
        return self.wire or summary


class Rule(Protocol):
    """A rule by its code, as findings carry it. Its docstring says what it can and cannot see."""

    code: str

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        """The findings of one version; none if it is clean or the rule has nothing to judge by."""

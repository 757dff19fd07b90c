"""A running engine as a source: all that it serves, or, where there is a reference, whether it serves that."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bridge_plugins.audit.sources.source import Progress, RecordsOnly
from bridge_plugins.audit.summary import Header, Summary, summarize
from bridge_plugins.errors import UsageError


@dataclass(frozen=True)
class EngineSource(RecordsOnly):
    """An engine by its URL."""

    url: str

    def __str__(self) -> str:
        return self.url

    def summary(self, progress: Progress = lambda _: None) -> Summary:  # noqa: ARG002
        """All that it serves. Raises `EngineError` if the engine can't answer, `UsageError` if it can't tell all of it."""
        from bridge_plugins.engines.sglang.client import Engine
        from bridge_plugins.engines.sglang.served import served_records

        engine = Engine(self.url)
        try:
            records, untold = served_records(engine)
            version = engine.weight_version()
        finally:
            engine.close()
        if untold:
            name, why = next(iter(untold.items()))
            raise UsageError(
                f"{self.url} can't tell {len(untold)} of its tensors ({name}: {why}): give what should be there first, "
                f"bridge-audit diff SOURCE {self.url}, with the trainer's summary or its Hugging Face folder as SOURCE"
            )
        header = Header(model=self.url, topology="", version=version, stage="readback")
        return summarize(header, records.values())

    def served(self, reference: Summary) -> tuple[Summary, dict[str, str]]:
        """What the engine serves of `reference`, and what could not be compared, by name, and why.

        Raises `EngineError` if the engine can't answer.
        """
        from bridge_plugins.engines.sglang.client import Engine
        from bridge_plugins.engines.sglang.readback import read_back

        engine = Engine(self.url)
        try:
            told = read_back(engine, reference)
            version = engine.weight_version()
        finally:
            engine.close()
        records = [
            record if name not in told.wrong else msgspec.structs.replace(
                record, lanes=told.wrong[name].lanes, norm=0.0, absmax=0.0, zeros=0, nonfinite=0
            )
            for name, record in reference.records.items()
            if name not in told.not_compared
        ]  # fmt: skip
        header = Header(model=self.url, topology="", version=version, stage="readback")
        return summarize(header, records), told.not_compared

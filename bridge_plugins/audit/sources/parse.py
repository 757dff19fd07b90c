"""What a user may name as a source, parsed once."""

from __future__ import annotations

from pathlib import Path

from bridge_plugins.audit.sources.hf_folder import HfFolder
from bridge_plugins.audit.sources.source import Source
from bridge_plugins.audit.sources.summaries import SummaryFiles
from bridge_plugins.errors import UsageError

_SOURCES = "a folder of a Hugging Face model, a summary (a file, or a folder of several ranks' files) or an engine's URL"


def parse(text: str) -> Source:
    """A source from what the user wrote. Raises `UsageError` for what is none of them, or a damaged folder."""
    if not text:  # which to a path is the current folder
        raise UsageError(f"an empty name is no source; a source is {_SOURCES}")
    if "://" in text:
        if not text.startswith(("http://", "https://")):
            raise UsageError(f"{text} is no URL of an engine: it begins with http:// or https://")
        from bridge_plugins.audit.sources.engine import EngineSource

        return EngineSource(text)
    path = Path(text)
    if path.is_file():
        if path.suffix == ".safetensors":
            raise UsageError(f"{path} is one file of a model: name its folder, {path.parent}")
        return SummaryFiles(path)
    if not path.is_dir():
        if path.exists():
            raise UsageError(
                f"{path} is a device or a pipe: write it to a file first; a source is {_SOURCES}"
            )
        raise UsageError(f"{path} is not there; a source is {_SOURCES}")
    if any(path.glob("*.safetensors")) or (path / "model.safetensors.index.json").is_file():
        return HfFolder.read(path)
    if _is_torch_dist(path):
        raise UsageError(
            f"{path} is a torch_dist checkpoint, which can't be read without unpickling it: name the .summary.json that "
            f"bridge-plugins convert has put in it, or make a Hugging Face folder: bridge-plugins convert {path} OUT"
        )
    if (path / "config.json").is_file():
        raise UsageError(f"{path} has a config and no *.safetensors: there are no weights to read")
    if not any(path.glob("*.json")):
        raise UsageError(f"{path} holds neither *.safetensors nor summaries; a source is {_SOURCES}")
    return SummaryFiles(path)


def _is_torch_dist(path: Path) -> bool:
    marks = ("latest_checkpointed_iteration.txt", ".metadata", "metadata.json", "common.pt")
    return (
        any((path / mark).is_file() for mark in marks)
        or any(path.glob("iter_*"))
        or any(path.glob("*.distcp"))
    )

"""What the launcher tells the trainer, beyond what every example tells."""

from __future__ import annotations

from examples.bridge_mode.messages import Settings


class OneGpuSettings(Settings, kw_only=True):
    """Beside `Settings`: how the weights come about, and what is measured."""

    train: bool  #: make optimizer steps; without them every weight is changed a little in place
    random: bool  #: the checkpoint has headers and no data
    repeats: int  #: of each measurement
    sleep: bool = False  #: the engine gives its weights' memory away at the end, and wakes
    lora: str = (
        ""  #: train adapters: "merged" into the base by the export, or "unmerged", applied by the engine
    )
    results: str = ""  #: the file for them

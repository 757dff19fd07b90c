"""The model that a preflight is about: its HF config, and the tensors that its checkpoint has or would have."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.stored.folder import read_folder, read_index

Shape = tuple[int, ...]

#: Kept in checkpoints beside the weights, and made anew by whoever needs them.
NOT_WEIGHTS = re.compile(r"(rotary_emb\.inv_freq|weight_scale_inv|_scale_inv|\.scales?|position_ids)$")


@dataclass(frozen=True)
class Source:
    """A model by its config, with the names and shapes of its tensors; a shape that isn't known is None.

    `optional` matches names that a checkpoint may have beyond those (MTP layers, say).
    """

    name: str
    config: Any
    tensors: Mapping[str, Shape | None]
    expected_from: str
    optional: tuple[str, ...] = field(default=())

    @property
    def family(self) -> str:
        """The architecture that its config names."""
        return str((getattr(self.config, "architectures", None) or ["?"])[0])

    def is_optional(self, name: str) -> bool:
        """Whether a checkpoint may have the tensor or not."""
        return any(re.search(pattern, name) for pattern in self.optional)


def read(folder: Path) -> Source:
    """Read a model's folder: its config, and its safetensors' headers or index where there are any.

    Raises `UsageError` for a folder without a readable config, or whose index and files don't fit together.
    """
    import transformers

    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} has no config.json: give the folder of a Hugging Face model, weights or not"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a config class's own checks, whatever they raise
        raise UsageError(
            f"{folder}/config.json is no config that transformers {transformers.__version__} knows "
            f"({_line(error)}); check model_type and this field, or install the version that the model asks for"
        ) from error
    return from_config(config, str(folder), folder)


def from_config(config: Any, name: str, folder: Path | None = None) -> Source:
    """The source of a config in memory; `folder` may have weights. Raises `UsageError` as `read` does."""
    if not getattr(config, "architectures", None):
        raise UsageError(
            f'{name} names no architecture: its config needs "architectures", say ["Qwen3ForCausalLM"]'
        )
    tensors = of_files(folder) if folder is not None else {}
    if tensors:
        kept = {key: shape for key, shape in tensors.items() if not NOT_WEIGHTS.search(key)}
        return Source(name, config, kept, "the checkpoint's own files", _optional(config))
    tensors, optional = _of_config(config)
    return Source(name, config, tensors, "the HF config, on the meta device", optional)


def of_files(folder: Path) -> dict[str, Shape | None]:
    """Names and shapes from headers; names alone where there is only an index."""
    if any(folder.glob("*.safetensors")):
        return {name: tensor.shape for name, tensor in read_folder(folder).items()}
    return dict.fromkeys(read_index(folder))


def _of_config(config: Any) -> tuple[dict[str, Shape | None], tuple[str, ...]]:
    """What ``save_pretrained`` would write, from a model on the meta device."""
    import torch

    model_class = _model_class(config)
    config = copy.deepcopy(config)  # a model writes its choices into it, and others refuse them
    try:
        with torch.device("meta"):
            model = model_class(config)
            state = _as_saved(model, _untied(model, config))
    except Exception as error:  # another's constructor, of any of many families
        raise UsageError(
            f"transformers can't build a {model_class.__name__} from this config ({_line(error)}); "
            "check its sizes, or give a folder with the checkpoint's index"
        ) from error
    tensors: dict[str, Shape | None] = {
        name: tuple(tensor.shape) for name, tensor in state.items() if not NOT_WEIGHTS.search(name)
    }
    return tensors, _optional(config)


def _untied(model: Any, config: Any) -> dict[str, Any]:
    """The state dict without what is tied to another tensor and so isn't saved."""
    state = dict(model.state_dict())
    known = getattr(model, "all_tied_weights_keys", None)  # since transformers 5
    if known is not None:
        return {name: tensor for name, tensor in state.items() if name not in known}
    if not (
        getattr(config, "tie_word_embeddings", False)
        or getattr(config.get_text_config(), "tie_word_embeddings", False)
    ):
        return state
    tied = getattr(model, "_tied_weights_keys", None) or ()
    return {name: tensor for name, tensor in state.items() if not any(re.search(t, name) for t in tied)}


def _model_class(config: Any) -> Any:
    import transformers

    name = config.architectures[0]
    found = getattr(transformers, name, None)
    if found is None:
        raise UsageError(
            f"transformers {transformers.__version__} has no {name}: give a folder with an index"
        )
    return found


def _optional(config: Any) -> tuple[str, ...]:
    import transformers

    found = getattr(transformers, config.architectures[0], None)
    return tuple(getattr(found, "_keys_to_ignore_on_load_unexpected", None) or ())


def _as_saved(model: Any, state: dict[str, Any]) -> dict[str, Any]:
    """The state dict under the names of a checkpoint: transformers 5 fuses experts when it loads, and undoes it."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return state
    return dict(revert_weight_conversion(model, state))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]

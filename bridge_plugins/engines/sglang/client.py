"""The HTTP calls that a push and a readback need, with a timeout on each and errors that name the engine."""

from __future__ import annotations

import functools
import json
from typing import Any, Literal, TypeVar

import httpx
import msgspec

from bridge_plugins.engines.sglang.reply import HttpReply, call
from bridge_plugins.errors import EngineError, UsageError

Reply = TypeVar("Reply")

PauseMode = Literal["abort", "retract", "in_place"]
"""What becomes of running requests: ended; computed anew, with the new weights; or kept, with the old ones' KV."""


class Engine:
    """One SGLang server.

    Args:
        url: as in ``http://127.0.0.1:30000``.
        api_key: the server's ``--admin-api-key`` (or ``--api-key``), if it has one.
        timeout: seconds for any one call, a day at most.

    Raises `UsageError` for what is no URL, no time, or no key that a header can carry.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 120.0) -> None:
        self.url = url.rstrip("/")
        if not 0 < timeout <= 86_400:
            raise UsageError(f"{url}: a timeout of {timeout:g} s: give more than 0, and 86400 at most")
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise UsageError(
                f"{url}: its key holds a line's end or what isn't ASCII; no header can carry that"
            )
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # Loopback and cluster addresses: a proxy from the environment has no business here.
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)
        except httpx.InvalidURL as error:
            raise UsageError(f"{url} is no URL ({error}); an engine's is http://HOST:PORT") from error
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            raise UsageError(f"{url!r} is no URL of an engine, which is http://HOST:PORT")

    def close(self) -> None:
        self._http.close()

    def healthy(self) -> bool:
        """Whether the server answers and is ready. Never raises."""
        try:
            return self._http.get("/health", timeout=5.0).is_success
        except httpx.HTTPError:
            return False

    def info(self) -> dict[str, Any]:
        """``model_path``, ``weight_version`` and the like."""
        info: dict[str, Any] = self._json("GET", "/get_model_info")
        return info

    def server_info(self) -> dict[str, Any]:
        """The server's arguments and version (``tp_size``, ``ep_size``, ``version``, …)."""
        info: dict[str, Any] = self._json("GET", "/get_server_info")
        return info

    @functools.cached_property
    def ranks(self) -> int:
        """Ranks that want a copy of each bucket: the server's ``tp_size``, in which SGLang counts EP too."""
        try:
            return int(self.server_info()["tp_size"])
        except (KeyError, TypeError, ValueError):
            raise EngineError(
                f"{self.url}/get_server_info tells no tp_size: is that an SGLang server?"
            ) from None

    @functools.cached_property
    def stages(self) -> int:
        """The server's pipeline stages."""
        return int(self.server_info().get("pp_size") or 1)

    def weight_version(self) -> str:
        return str(self.info().get("weight_version"))

    def begin_weight_update(self) -> bool:
        """Open an update where the server has that (SGLang 0.5.21 and newer); False where it has not."""
        return self._json("POST", "/begin_weight_update", {}, missing_is_none=True) is not None

    def end_weight_update(self) -> None:
        self._json("POST", "/end_weight_update", {})

    def update_weights_from_tensor(self, payloads: list[str], load_format: str) -> None:
        """Load one bucket; `payloads` holds one serialized bucket for each TP rank of the engine."""
        body = {"serialized_named_tensors": payloads, "load_format": load_format, "flush_cache": False}
        self._json("POST", "/update_weights_from_tensor", body)

    def init_weights_update_group(self, address: str, port: int, world: int, name: str, backend: str) -> None:
        """Let the server's ranks join group `name` as ranks 1 and up; returns when all have."""
        body = {
            "master_address": address, "master_port": port, "rank_offset": 1, "world_size": world,
            "group_name": name, "backend": backend,
        }  # fmt: skip
        self._json("POST", "/init_weights_update_group", body)

    def destroy_weights_update_group(self, name: str) -> None:
        self._json("POST", "/destroy_weights_update_group", {"group_name": name})

    def update_weights_from_distributed(
        self, group: str, names: list[str], dtypes: list[str], shapes: list[list[int]], load_format: str
    ) -> None:
        """Load what rank 0 of `group` broadcasts."""
        body = {
            "names": names, "dtypes": dtypes, "shapes": shapes, "group_name": group, "load_format": load_format,
            "flush_cache": False,
        }  # fmt: skip
        self._json("POST", "/update_weights_from_distributed", body)

    def update_weights_from_disk(self, folder: str) -> None:
        """Load all files of a folder that the server can read."""
        self._json("POST", "/update_weights_from_disk", {"model_path": folder, "flush_cache": False})

    def pause_generation(self, mode: PauseMode) -> None:
        self._request("POST", "/pause_generation", {"mode": mode})

    def continue_generation(self) -> None:
        self._request("POST", "/continue_generation", {"torch_empty_cache": False})

    def release_memory(self, *tags: str) -> None:
        """Let the engine give memory back (``weights``, ``kv_cache``); it serves nothing until `resume_memory`."""
        self._request("POST", "/release_memory_occupation", {"tags": tags})

    def resume_memory(self, *tags: str) -> None:
        """Take memory again. What lay there is gone: weights must be pushed, all of them."""
        self._request("POST", "/resume_memory_occupation", {"tags": tags})

    def flush_cache(self) -> None:
        """Forget the prefixes that were computed with older weights. Refused while requests are running."""
        self._request("POST", "/flush_cache", {})

    def load_adapter(self, name: str, config: dict[str, Any], payloads: list[str], load_format: str) -> None:
        """Load a LoRA adapter under `name`. `config`: PEFT's; `payloads`: as for `update_weights_from_tensor`."""
        body = {
            "lora_name": name, "config_dict": config, "load_format": load_format,
            "serialized_named_tensors": payloads,
            "serialized_tensors": payloads[0],  # what older servers (0.5.16) read
        }  # fmt: skip
        self._json("POST", "/load_lora_adapter_from_tensors", body)

    def unload_adapter(self, name: str) -> None:
        self._json("POST", "/unload_lora_adapter", {"lora_name": name})

    def set_weight_version(self, version: str) -> None:
        self._json("POST", "/update_weight_version", {"new_version": version, "abort_all_requests": False})

    def checksum(self) -> Any:
        """The server's own checksums of its tensors, rank by rank: of no use across topologies."""
        return self._json("POST", "/weights_checker", {"action": "checksum"})

    def generate(self, **request: Any) -> Any:
        """``/generate``; a list of replies for a list of inputs."""
        return self._json("POST", "/generate", request)

    def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:
        """Ask the plugin inside the server; one reply for each model of each rank that answered: the target, drafts.

        Raises `EngineError` if the server lacks the plugin, a rank could not do it, or a reply is of another shape.
        """
        # Arguments travel inside the action: older servers have no other field for them.
        body = {"action": f"bridge.{action}:{json.dumps(arguments)}"}
        try:
            answer = self._json("POST", "/weights_checker", body)
        except EngineError as error:
            if error.status == 404 or "Unsupported action" in str(error):
                raise EngineError(
                    f"{self.url} has no readback: install megatron-bridge-plugins where that server runs "
                    "and start it with BRIDGE_READBACK=1"
                ) from error
            raise
        try:
            # SGLang puts a draft's role before the key.
            return [
                msgspec.json.decode(text, type=reply)
                for rank in answer.get("ranks") or []
                for key, text in rank["checksums"].items()
                if key == "bridge" or key.endswith(".bridge")
            ]
        except (KeyError, TypeError, AttributeError, RecursionError, msgspec.DecodeError) as error:
            raise EngineError(
                f"{self.url} gave a reply of another version of this package: {error}"
            ) from error

    def _json(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, missing_is_none: bool = False
    ) -> Any:
        answer = self._request(method, path, body, missing_is_none=missing_is_none)
        if answer is None:
            return None
        try:
            value = answer.json()
        except ValueError as error:
            raise EngineError(f"{self.url}{path} answered no JSON: {answer.text[:100]!r}") from error
        if isinstance(value, dict) and value.get("success") is False:
            raise EngineError(f"{self.url}{path} refused: {value.get('message')}")
        return value

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, missing_is_none: bool = False
    ) -> HttpReply | None:
        answer = call(self._http, method, path, body)
        if answer.status == 404 and missing_is_none:
            return None
        if not answer.good:
            raise EngineError(
                f"{self.url}{path} answered {answer.status}: {answer.text}", status=answer.status
            )
        return answer

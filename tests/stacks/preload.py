"""What the fork server imports once, so that no rank of any case pays for it again (about 10 s)."""

import os

# Before torch: one thread a rank, for a case has more ranks than the machine has cores; loopback only.
os.environ.update(
    OMP_NUM_THREADS="1",
    GLOO_SOCKET_IFNAME="lo",
    CUDA_DEVICE_MAX_CONNECTIONS="1",
    TOKENIZERS_PARALLELISM="false",
)
os.environ.setdefault("BRIDGE_PLUGINS_CPU", "1")

import bridge_plugins

bridge_plugins.load(strict=True)

import megatron.bridge  # noqa: E402 (the patches go first)
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
megatron.bridge.AutoBridge  # noqa: B018 (an attribute that is loaded when it is asked for)

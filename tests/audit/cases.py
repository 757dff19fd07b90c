"""What the forked ranks run."""

from __future__ import annotations

import random
from typing import Any

from bridge_plugins.topology import Topology


def clean_run(
    checkpoint: str, topology: dict[str, Any], kind: str = "", seed: int = 0, **fields: Any
) -> dict[str, Any]:
    """Versions as a run makes them: loaded, exported again, trained at RL rates, with orders and buckets shuffled.

    Every version is sent: the first rank packs it into buckets, as a push does.
    """
    import torch.distributed as dist

    from bridge_plugins.audit import Expected, WeightAudit
    from bridge_plugins.audit.declared import Declared
    from bridge_plugins.engines.sglang.wire import Bucket
    from tests.audit.trainer import build, step

    sizes = Topology(**topology)
    trainer = build(checkpoint, sizes, learning_rate=1e-6, kind=kind, **fields)
    frozen = {"lora": ("*mlp*", "*norm*"), "frozen": ("*embed_tokens*",)}.get(kind, ())
    audit = WeightAudit(
        "tiny", str(sizes), Expected.from_folder(checkpoint), declared=Declared(frozen=frozen), strict=True
    )
    shuffle = random.Random(seed)  # noqa: S311 (every rank shuffles alike)
    said, digests, infos = [], [], []
    for number, steps in enumerate((0, 0, 1, 2)):
        for count in range(steps):
            step(trainer, 10 * number + count)
        items = trainer.export()
        shuffle.shuffle(items)
        size = shuffle.randrange(1, 40)
        bucket: list[Any] = []
        for item in audit.watch(items):
            bucket.append(item)
            if len(bucket) == size or len(item[0]) == -1:
                if dist.get_rank() == 0:
                    Bucket(bucket)
                bucket = []
        if bucket and dist.get_rank() == 0:
            Bucket(bucket)
        summary, findings = audit.finish(str(number + 1), trained=steps > 0)
        said += [str(finding) for finding in findings if finding.counts]
        infos += [str(finding) for finding in findings if not finding.counts]
        digests.append(summary.digest)
    return {"said": said, "infos": infos, "digests": digests, "tensors": len(summary.records)}

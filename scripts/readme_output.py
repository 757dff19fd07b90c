"""Put the real output of the demo into README.md, between its markers: python scripts/readme_output.py"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
RUNS: dict[str, list[str]] = {"demo": [], "fault": ["FAULT=swap-experts"]}


VERDICTS = {"demo": "consistent", "fault": "findings"}


def main() -> str | None:
    """Write README.md; give an error if a run did not end as it should."""
    text = README.read_text()
    for name, options in RUNS.items():
        command = ["make", "--no-print-directory", "demo", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        last = done.stdout.splitlines()[-1] if done.stdout else done.stderr
        if not last.startswith(f"VERDICT {VERDICTS[name]} "):
            return f"make demo {' '.join(options)} ended with: {last}"
        lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("setup:")]
        shown = "\n".join([f"$ make demo {' '.join(options)}".rstrip(), *lines])
        shown = re.sub(r"/\S*/bridge-\w+", "/tmp/bridge-run", shown)  # noqa: S108
        block = f"<!-- {name}: begin -->\n```text\n{shown}\n```\n<!-- {name}: end -->"
        text = re.sub(
            rf"<!-- {name}: begin -->.*?<!-- {name}: end -->", lambda _, b=block: b, text, flags=re.DOTALL
        )
    README.write_text(text)
    return None


if __name__ == "__main__":
    sys.exit(main())

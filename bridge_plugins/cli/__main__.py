"""``python -m bridge_plugins.cli plugins …`` and ``… audit …``: where the scripts aren't on PATH."""

from __future__ import annotations

import importlib
import sys

from bridge_plugins.cli import exits

TOOLS = ("plugins", "audit")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TOOLS:
        print(f"usage: python -m bridge_plugins.cli {{{','.join(TOOLS)}}} …", file=sys.stderr)
        sys.exit(exits.NOT_DONE)
    tool = sys.argv.pop(1)
    sys.argv[0] = f"bridge-{tool}"
    importlib.import_module(f"bridge_plugins.cli.{tool}").main()

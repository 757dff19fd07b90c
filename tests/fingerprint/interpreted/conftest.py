"""These tests need Triton's interpreter, which a process has or hasn't from its start; see test_interpreted.py."""

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]

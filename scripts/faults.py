"""Run every test that injects a public fault, and write docs/faults.md from what they said: python scripts/faults.py

With arguments for pytest (``-k``, a path) only those tests run, and the table is printed instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "faults.md"
sys.path.insert(0, str(ROOT))

from tests.faults.catalogue import catalogue  # noqa: E402
from tests.faults.report import Report, page  # noqa: E402


def main(arguments: list[str]) -> int:
    """Run the tests and write the page, or print it; gives pytest's exit status."""
    report = Report()
    status = pytest.main([str(ROOT / "tests"), "-m", "fault", "-q", *arguments], plugins=[report])
    text = page(report, catalogue())
    if arguments:
        print(text)
    elif status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        PAGE.write_text(text)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

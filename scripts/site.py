"""What mkdocs is told beside mkdocs.yml: README.md is the front page, examples have pages of their own, links are checked.

The site has no sources: a link to one becomes its text. A link to a file that isn't there is a warning.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")

#: Where a page that lies outside of docs/ is on the site.
OUTSIDE = {
    "README.md": "index.md",
    **{f"examples/{page.parent.name}/README.md": f"examples/{page.parent.name}.md"
       for page in sorted(ROOT.glob("examples/*/README.md"))},
}  # fmt: skip

logger = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside of docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to where things are on the site."""
    at = page.file.src_uri
    source = next((source for source, there in OUTSIDE.items() if there == at), f"docs/{at}")
    return _LINK.sub(lambda link: _led(link, source, at), markdown)


def _led(link: re.Match[str], source: str, page: str) -> str:
    text, target, anchor = link.groups()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not (ROOT / path).exists():
        logger.warning("%s links to %s, which is not there", source, target)
        return link[0]
    there = path.removeprefix("docs/") if path.startswith("docs/") else OUTSIDE.get(path)
    if there is None:
        return text
    return f"[{text}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor or ''})"

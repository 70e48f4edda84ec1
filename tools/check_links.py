"""Checks that every relative link in the documents leads somewhere.

Run it with `make docs`; the tests run it as well.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.house_rules import text_files

ROOT = Path(__file__).resolve().parent.parent

_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)


def links(markdown: str) -> Iterator[str]:
    """The targets of the links and images of a document, code left out."""
    prose = _CODE_SPAN.sub("", _CODE_BLOCK.sub("", markdown))
    for match in _LINK.finditer(prose):
        yield match.group(1)


def anchors(markdown: str) -> set[str]:
    """The anchors that a renderer gives the headings of a document."""
    headings = _HEADING.findall(_CODE_BLOCK.sub("", markdown))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(root: Path) -> list[str]:
    """`document: target` for every relative link that leads nowhere."""
    broken = []
    for path in text_files(root, "*.md"):
        for link in links(path.read_text(encoding="utf-8")):
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            destination = (path.parent / target).resolve() if target else path
            is_there = destination.exists()
            if is_there and anchor and destination.suffix == ".md":
                is_there = anchor in anchors(destination.read_text(encoding="utf-8"))
            if not is_there:
                broken.append(f"{path.relative_to(root)}: {link}")
    return broken


def main() -> int:
    """Prints what is broken; the exit code says whether something is."""
    broken = broken_links(ROOT)
    print("\n".join(broken) or "every link leads somewhere")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

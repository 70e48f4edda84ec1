"""The table of docs/papers/README.md is current, and what tests cite is in the sheets."""

from pathlib import Path

import pytest

from tools import papers_table
from tools.papers_table import Citation

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "docs" / "papers"


def test_the_committed_table_is_current() -> None:
    """`make docs` would change nothing."""
    committed = (PAPERS / "README.md").read_text(encoding="utf-8")
    assert papers_table.with_table(committed, papers_table.table(ROOT)) == committed


def test_every_citation_is_in_its_sheet() -> None:
    """A test that cites a rule cites one that exists."""
    sheets = {sheet: (PAPERS / f"{sheet}.md").read_text(encoding="utf-8") for sheet in papers_table.SHEETS}
    cited = papers_table.citing_tests(ROOT / "tests", ROOT)
    astray = [c for c in cited if not papers_table.is_in_sheet(c, sheets[c.sheet])]
    assert astray == []
    assert cited, "no test cites a sheet"


PEER, BAD = papers_table.SHEETS[0], papers_table.SHEETS[4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Covering, {PEER} L5.", [Citation(PEER, "L5")]),
        (f"({PEER} L5, L6 and §1.2)", [Citation(PEER, "L5"), Citation(PEER, "L6"), Citation(PEER, "§1.2")]),
        (f"{PEER} L8–L10", [Citation(PEER, "L8"), Citation(PEER, "L9"), Citation(PEER, "L10")]),
        (f"{BAD}/X1; {PEER} G1", [Citation(BAD, "X1"), Citation(PEER, "G1")]),
        (f"a {PEER} of mine, {BAD} luck, s{PEER} L5", []),
    ],
)
def test_citations_are_read(text: str, expected: list[Citation]) -> None:
    """Single marks, lists and ranges are citations; the words alone are not."""
    assert papers_table.citations(text) == expected


def test_a_section_is_found_by_its_heading() -> None:
    """A section is a heading, not any mention of its number."""
    sheet = "## 1. Purpose\n### 1.2 Posets\nsee 1.3 and L5\n"
    assert papers_table.is_in_sheet(Citation(PEER, "§1"), sheet)
    assert papers_table.is_in_sheet(Citation(PEER, "§1.2"), sheet)
    assert not papers_table.is_in_sheet(Citation(PEER, "§1.3"), sheet)
    assert papers_table.is_in_sheet(Citation(PEER, "L5"), sheet)
    assert not papers_table.is_in_sheet(Citation(PEER, "L50"), sheet)


def test_a_row_names_section_module_and_test(tmp_path: Path) -> None:
    """The modules of a row are those that the citing test uses, not all that its file imports."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "from tidewire.matching.poset import Poset\nfrom tidewire.language.sql import parse\n"
        f'def test_it() -> None:\n    """See {PEER} L5."""\n    assert Poset()\n',
        encoding="utf-8",
    )
    rows = papers_table.table(tmp_path).splitlines()
    assert rows[2:] == [f"| [{PEER}]({PEER}.md) L5 | `matching.poset` | [`test_it`](../../tests/test_a.py) | – |"]

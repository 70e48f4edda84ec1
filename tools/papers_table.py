"""Writes the table *paper section → module → test → experiment* of docs/papers/README.md.

A test cites a sheet in its docstring (`peer L5`, `peer §1.2, §7.1`, `gryphon T1–T4`); the modules
are those of Tidewire that the test uses; an experiment cites the sheet in its own docstring.

    python -m tools.papers_table            # is the committed table current?
    python -m tools.papers_table --write    # write it
    python -m tools.papers_table --tests    # the tests that cite a sheet, as pytest names them
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHEETS = ("peer", "epeer", "gryphon", "esilbops", "bad")
BEGIN = "<!-- begin: written by tools/papers_table.py -->"
END = "<!-- end -->"

_MARK = r"(?:§\d+(?:\.\d+)*|[A-Z]{1,4}\d+[a-z]?)"
_CITATION = re.compile(rf"\b({'|'.join(SHEETS)})[ /]({_MARK}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*[–-]\s*){_MARK})*)")


@dataclass(frozen=True, order=True)
class Citation:
    """One place in one sheet: a section (`§1.2`) or the id of a rule, golden value or experiment."""

    sheet: str
    mark: str


@dataclass(frozen=True)
class CitingTest:
    """A test (`::test_it`), or a whole file of tests (no name), that cites a sheet, and the modules that it uses."""

    path: str
    name: str
    modules: tuple[str, ...]


def citations(text: str) -> list[Citation]:
    """What a docstring cites; `L8–L11` is four citations."""
    found: dict[Citation, None] = {}
    for match in _CITATION.finditer(text):
        sheet, marks = match.groups()
        for piece in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", marks):
            for mark in _expanded(piece):
                found[Citation(sheet, mark)] = None
    return list(found)


def _expanded(piece: str) -> Iterator[str]:
    first, _, last = re.sub(r"\s*[–-]\s*", "–", piece).partition("–")
    start, end = re.fullmatch(r"([A-Z]+)(\d+)", first), re.fullmatch(r"([A-Z]+)(\d+)", last)
    if start and end and start[1] == end[1]:
        for number in range(int(start[2]), int(end[2]) + 1):
            yield f"{start[1]}{number}"
    else:
        yield from (mark for mark in (first, last) if mark)


def is_in_sheet(citation: Citation, sheet: str) -> bool:
    """Whether the text of a sheet has the section, or names the id."""
    if citation.mark.startswith("§"):
        number = re.escape(citation.mark.removeprefix("§"))
        return re.search(rf"^#+ {number}\b(?!\.\d)", sheet, re.MULTILINE) is not None
    return re.search(rf"(?<![A-Za-z0-9]){citation.mark}(?![0-9])", sheet) is not None


def citing_tests(tests: Path, root: Path) -> dict[Citation, list[CitingTest]]:
    """Every citation in the docstrings of tests, with who cites it."""
    found: dict[Citation, list[CitingTest]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = _imports(tree)
        place = path.relative_to(root).as_posix()
        for name, node in _documented(tree):
            used = {imported[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in imported}
            modules = _telling(used or set(imported.values()))
            for citation in citations(ast.get_docstring(node) or ""):
                found.setdefault(citation, []).append(CitingTest(place, name, modules))
    return found


def _telling(modules: set[str]) -> tuple[str, ...]:
    """The vocabulary is in every test: it is named only where nothing else is."""
    others = {module for module in modules if not module.startswith("model")}
    return tuple(sorted(others or modules))


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def _documented(node: _Documented, name: str = "") -> Iterator[tuple[str, _Documented]]:
    """The module, its test classes and its test functions, each with the name that pytest gives it."""
    yield name, node
    if not isinstance(node, ast.FunctionDef):
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name.lower().startswith("test"):
                yield from _documented(child, f"{name}::{child.name}")


def _imports(tree: ast.Module) -> dict[str, str]:
    """Local name → the module of Tidewire that it comes from, without the leading `tidewire.`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidewire"):
            module = (node.module or "").removeprefix("tidewire").removeprefix(".")
            for alias in node.names:
                names[alias.asname or alias.name] = module or alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("tidewire.") and alias.asname:
                    names[alias.asname] = alias.name.removeprefix("tidewire.")
    return names


def experiments(papers: Path, root: Path) -> dict[Citation, list[str]]:
    """Every citation in the docstrings of experiments, with the files that cite it."""
    found: dict[Citation, list[str]] = {}
    for path in sorted(papers.rglob("*.py")) if papers.is_dir() else []:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for citation in citations(docstring):
            found.setdefault(citation, []).append(path.relative_to(root).as_posix())
    return found


def table(root: Path) -> str:
    """The table as Markdown."""
    tests = citing_tests(root / "tests", root)
    runs = experiments(root / "src" / "tidewire" / "papers", root)
    lines = ["| paper § | module | test | experiment |", "|---|---|---|---|"]
    for citation in sorted({*tests, *runs}, key=_reading_order):
        by = tests.get(citation, [])
        modules = _unique(f"`{module}`" for test in by for module in test.modules)
        names = _unique(_link(test.path, test.name.split("::")[-1] or Path(test.path).name) for test in by)
        files = _unique(_link(path, Path(path).stem) for path in runs.get(citation, []))
        cells = (
            f"[{citation.sheet}]({citation.sheet}.md) {citation.mark}",
            ", ".join(modules) or "–",
            ", ".join(names) or "–",
            ", ".join(files) or "–",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _link(path: str, text: str) -> str:
    return f"[`{text}`](../../{path})"


def _reading_order(citation: Citation) -> tuple[int, bool, str, list[int], str]:
    is_id = not citation.mark.startswith("§")
    letters = re.match(r"[A-Z§]*", citation.mark)
    numbers = [int(number) for number in re.findall(r"\d+", citation.mark)]
    return SHEETS.index(citation.sheet), is_id, letters[0] if letters else "", numbers, citation.mark


def with_table(document: str, content: str) -> str:
    """The document, with the part between the markers replaced."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, "the first marker of the table is missing"
    assert end, "the last marker of the table is missing"
    return f"{head}{BEGIN}\n{content}\n{END}{tail}"


def main(arguments: list[str]) -> int:
    """Writes the table, names the tests, or says whether the committed table is current."""
    if "--tests" in arguments:
        cited = citing_tests(ROOT / "tests", ROOT)
        print("\n".join(sorted({f"{test.path}{test.name}" for by in cited.values() for test in by})))
        return 0
    readme = ROOT / "docs" / "papers" / "README.md"
    committed = readme.read_text(encoding="utf-8")
    current = with_table(committed, table(ROOT))
    if "--write" in arguments:
        readme.write_text(current, encoding="utf-8")
        return 0
    if committed != current:
        print("the table of docs/papers/README.md is out of date: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

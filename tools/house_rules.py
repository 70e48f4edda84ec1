"""The house rules, as questions about files: each answers with what breaks it, one line each.

tests/architecture/test_house_rules.py asks them of this repository, and shows that each can fail.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE_LINES_MAX = 450
TEST_LINES_MAX = 700
CPP_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

# Written in two halves, so that this file obeys the rule it states.
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")
STUB = "raise NotImplemented" + "Error"
SIBLING_FOLDER = "../" + "shared"

_GENERATED = {
    ".git", ".venv", ".cache", "build", "dist", "data", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", ".import_linter_cache", "htmlcov", "vendor",
}  # fmt: skip
_TEXT = {
    ".py", ".pyi", ".md", ".toml", ".sh", ".txt", ".cpp", ".hpp", ".h", ".json", ".svg", ".yml", "",
    ".js", ".css", ".html",
}  # fmt: skip
_MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:home|Users|root|work|mnt|opt)/[\w.]")


def text_files(root: Path, pattern: str = "*") -> Iterator[Path]:
    """The files that people wrote, in a stable order; what a tool makes, or others wrote, is left out."""
    for path in sorted(root.rglob(pattern)):
        parts = path.relative_to(root).parts
        if path.is_file() and path.suffix in _TEXT and not any(_is_generated(part) for part in parts):
            yield path


def _is_generated(part: str) -> bool:
    return part in _GENERATED or part.endswith(".egg-info")


def missing_docstrings(root: Path) -> list[str]:
    """Modules of the package that do not say what they are for."""
    modules = text_files(root / "src", "*.py")
    return [_name(p, root) for p in modules if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]


def long_files(root: Path) -> list[str]:
    """Files past their size, where an idea has leaked out of its room."""
    limits = [("src", "*.py", SOURCE_LINES_MAX), ("tests", "*.py", TEST_LINES_MAX)]
    limits += [("tools", "*.py", SOURCE_LINES_MAX), ("src", "*.js", SOURCE_LINES_MAX)]
    limits += [("src", pattern, CPP_LINES_MAX) for pattern in ("*.cpp", "*.hpp", "*.h")]
    found = []
    for folder, pattern, lines_max in limits:
        for path in text_files(root / folder, pattern):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > lines_max:
                found.append(f"{_name(path, root)}: {lines} lines, at most {lines_max}")
    return found


def long_functions(root: Path) -> list[str]:
    """Functions of the package past their size."""
    found = []
    for path in text_files(root / "src", "*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found.append(f"{_name(path, root)}:{node.lineno} {node.name}: {lines} lines")
    return found


def unfinished_marks(root: Path) -> list[str]:
    """Places that say that they are not done."""
    marks = re.compile(rf"\b(?:{'|'.join(UNFINISHED)})\b|{STUB}")
    return list(_lines_with(marks, text_files(root), root))


def machine_paths(root: Path) -> list[str]:
    """Absolute paths of one machine."""
    return list(_lines_with(_MACHINE_PATH, text_files(root), root))


def sibling_folders(root: Path) -> list[str]:
    """Mentions of the folder beside the checkout, which only .ci/run may know."""
    files = [path for path in text_files(root) if path != root / ".ci" / "run"]
    return list(_lines_with(re.compile(re.escape(SIBLING_FOLDER)), files, root))


def download_addresses(root: Path) -> list[str]:
    """Lines of constraints that say where to download, or that bind nothing by hash."""
    found = list(_lines_with(re.compile(r"://|^\s*-(?!-hash=)"), text_files(root, "constraints*.txt"), root))
    for path in text_files(root, "constraints*.txt"):
        requirements = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8"))
        unbound = [r for r in requirements if not r.startswith("#") and "--hash=sha256:" not in r]
        found += [f"{_name(path, root)}: {requirement.split()[0]} has no hash" for requirement in unbound]
    return found


def glossary_words(glossary: str) -> dict[str, str]:
    """The words of the papers that are not ours, as written in backticks → our word.

    They stand in the first column of the table whose header is `| paper's word | ours |`.
    """
    words: dict[str, str] = {}
    in_table = False
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0].lower() == "paper's word":
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not set(cells[0]) <= set("-: "):
            words |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[1])
    return words


def foreign_words(root: Path) -> list[str]:
    """Identifiers of the package that use a paper's word where the glossary has ours."""
    words = glossary_words((root / "docs" / "glossary.md").read_text(encoding="utf-8"))
    phrases = {tuple(_words_of(word)): (word, ours) for word, ours in words.items()}
    found = []
    for path in text_files(root / "src", "*.py"):
        for name, line in identifiers(path.read_text(encoding="utf-8")):
            for phrase, (word, ours) in phrases.items():
                if _contains(_words_of(name), phrase):
                    found.append(f"{_name(path, root)}:{line} {name}: {word} is called {ours} here")
    return found


def identifiers(source: str) -> Iterator[tuple[str, int]]:
    """The names that a module gives: of what it defines, assigns, takes as argument or imports as."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, 0


def _words_of(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return [_singular(word.lower()) for word in re.split(r"[\W_]+", spaced) if word]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _contains(words: list[str], phrase: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(tuple(words[i : i + size]) == phrase for i in range(len(words) - size + 1))


def mapped_rooms(architecture: str) -> dict[str, bool]:
    """The packages that the code map of ARCHITECTURE.md names → whether they are (planned)."""
    section = re.search(r"^## Code map$(.*?)(?=^## )", architecture, re.MULTILINE | re.DOTALL)
    assert section, "ARCHITECTURE.md has no section called Code map"
    rooms: dict[str, bool] = {}
    for line in section[1].splitlines():
        if line.startswith("|"):
            cell = line.split("|")[1]
            rooms |= dict.fromkeys(re.findall(r"`([a-z_]+)/`", cell), "(planned)" in cell)
    return rooms


def rooms(root: Path) -> set[str]:
    """The packages under src/tidewire."""
    return {path.parent.name for path in (root / "src" / "tidewire").glob("*/__init__.py")}


def unmapped_rooms(root: Path) -> list[str]:
    """Where the code map and the tree differ."""
    mapped = mapped_rooms((root / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    here = rooms(root)
    found = [f"{room}: not in the code map" for room in sorted(here - set(mapped))]
    for room, is_planned in mapped.items():
        if is_planned and room in here:
            found.append(f"{room}: built, yet marked (planned)")
        elif not is_planned and room not in here:
            found.append(f"{room}: in the code map, not in the tree")
    return found


def _lines_with(pattern: re.Pattern[str], files: Iterable[Path], root: Path) -> Iterator[str]:
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if pattern.search(line):
                yield f"{_name(path, root)}:{number}: {line.strip()[:100]}"


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()

"""The house rules hold in this repository, and each of them can fail."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import check_links, house_rules

ROOT = Path(__file__).resolve().parents[2]
Rule = Callable[[Path], list[str]]

RULES: list[Rule] = [
    house_rules.missing_docstrings,
    house_rules.long_files,
    house_rules.long_functions,
    house_rules.unfinished_marks,
    house_rules.machine_paths,
    house_rules.sibling_folders,
    house_rules.download_addresses,
    house_rules.foreign_words,
    house_rules.unmapped_rooms,
    check_links.broken_links,
]

GLOSSARY = "| paper's word | ours |\n|---|---|\n| `edge-broker`, `SHB` | edge |\n| plain | kept |\n"
ARCHITECTURE = "## Code map\n\n| room | |\n|---|---|\n| `model/` | |\n| `wire/` (planned) | |\n\n## Next\n"

# One breach of each rule: the file that commits it, and what the rule says of it.
BREACHES: list[tuple[Rule, str, str, str]] = [
    (house_rules.missing_docstrings, "src/tidewire/a.py", "x = 1\n", "src/tidewire/a.py"),
    (house_rules.long_files, "src/tidewire/a.py", "x = 1\n" * 451, "451 lines, at most 450"),
    (house_rules.long_files, "src/tidewire/console/static/a.js", "\n" * 451, "451 lines, at most 450"),
    (house_rules.long_files, "tests/unit/test_a.py", "x = 1\n" * 701, "701 lines, at most 700"),
    (house_rules.long_files, "src/tidewire/_kernel/cpp/a.hpp", "\n" * 601, "601 lines, at most 600"),
    (house_rules.long_functions, "src/tidewire/a.py", "def f():\n" + "    x = 1\n" * 60, "f: 61 lines"),
    (house_rules.unfinished_marks, "docs/a.md", f"{house_rules.UNFINISHED[0]} later\n", "docs/a.md:1"),
    (house_rules.unfinished_marks, "src/a.cpp", f"\n// {house_rules.UNFINISHED[2]}\n", "src/a.cpp:2"),
    (house_rules.unfinished_marks, "src/a.py", f"{house_rules.STUB}\n", "src/a.py:1"),
    (house_rules.machine_paths, "Makefile", "X = " + "/home" + "/ann/x\n", "Makefile:1"),
    (house_rules.sibling_folders, "tools/a.sh", f"ls {house_rules.SIBLING_FOLDER}\n", "tools/a.sh:1"),
    (house_rules.download_addresses, "constraints.txt", "--index-url x\n", "constraints.txt:1"),
    (house_rules.download_addresses, "constraints.txt", "a==1 \\\n    --hash=sha256:0\nb==1\n", "b==1 has no hash"),
    (house_rules.foreign_words, "src/tidewire/a.py", "def to_edge_brokers(x): ...\n", "edge-broker is called edge"),
    (house_rules.foreign_words, "src/tidewire/a.py", "class SHBState: ...\n", "SHB is called edge"),
    (house_rules.foreign_words, "src/tidewire/a.py", "x.shb = 1\n", "SHB is called edge"),
    (house_rules.unmapped_rooms, "src/tidewire/extra/__init__.py", "", "extra: not in the code map"),
    (house_rules.unmapped_rooms, "src/tidewire/wire/__init__.py", "", "wire: built, yet marked (planned)"),
    (house_rules.unmapped_rooms, "src/tidewire/x/__init__.py", "", "model: in the code map, not in the tree"),
    (check_links.broken_links, "docs/a.md", "[b](b.md)\n", "docs/a.md: b.md"),
    (check_links.broken_links, "docs/a.md", "# One\n\n[b](#two)\n", "docs/a.md: #two"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    """Nothing in the tree breaks the rule."""
    assert rule(ROOT) == []


def _small_repository(root: Path) -> None:
    for folder in ("src/tidewire", "tests", "tools", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "docs" / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    (root / "ARCHITECTURE.md").write_text(ARCHITECTURE, encoding="utf-8")


@pytest.mark.parametrize(("rule", "file", "content", "message"), BREACHES)
def test_a_breach_is_found(rule: Rule, file: str, content: str, message: str, tmp_path: Path) -> None:
    """A file that breaks the rule is named, with the reason."""
    _small_repository(tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    assert any(message in line for line in rule(tmp_path)), rule(tmp_path)


def test_every_rule_is_shown_to_fail() -> None:
    """A rule without a breach above would prove nothing."""
    assert {rule for rule, *_ in BREACHES} == set(RULES)


def test_the_glossary_binds_the_code() -> None:
    """The table of the glossary is found, and holds the words that the design settles."""
    words = house_rules.glossary_words((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert {"cluster-head", "PHB", "edge-broker", "SHB", "BCS", "topic"} <= set(words)
    assert words["PHB"] == "head"


def test_every_room_below_live_is_pure() -> None:
    """The contract against clocks, sockets, randomness, files and logs names every room that it is for."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    above = {"cli", "papers", "benchmarks", "console", "live", "simulator", "spark"}
    below = {f"tidewire.{room}" for room in house_rules.rooms(ROOT) - above}
    assert below == set(contracts["pure"]["source_modules"])
    assert {"asyncio", "time", "random", "os", "logging", "pyspark"} <= set(contracts["pure"]["forbidden_modules"])

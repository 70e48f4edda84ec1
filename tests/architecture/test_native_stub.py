"""The committed stub of the kernel says what the compiled module has: the same names and arguments.

Without the stub mypy would see `Any`; with a wrong one it would see something that is not there.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from tidewire._kernel import _native
from tidewire.model.filters import ACCESS_VALUES_MAX

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "src" / "tidewire" / "_kernel" / "_native.pyi"

# What every class has, whether or not its author wrote it.
_ALWAYS = {name for name in dir(type("Plain", (), {})) if name != "__init__"} | {"__new__"}


def described_by_stub(source: str) -> set[str]:
    """`name` or `Class.name` of all that a stub declares, functions with their arguments."""
    return set(_described(ast.parse(source).body, prefix=""))


def _described(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            if not (prefix and node.name in _ALWAYS) and not _is_setter(node):
                yield f"{prefix}{node.name}{'' if _is_property(node) else _arguments(node)}"
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from _described(node.body, prefix=f"{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not node.target.id.startswith("_"):  # a name for a type, of the stub's own
                yield f"{prefix}{node.target.id}"
        elif isinstance(node, ast.Assign):
            yield from (f"{prefix}{target.id}" for target in node.targets if isinstance(target, ast.Name))


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def _is_property(node: ast.FunctionDef) -> bool:
    return "property" in _decorators(node)


def _is_setter(node: ast.FunctionDef) -> bool:
    return any(decorator.endswith(".setter") for decorator in _decorators(node))


def _arguments(node: ast.FunctionDef) -> str:
    declared = node.args
    names = [argument.arg for argument in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs)]
    return f"({', '.join(name for name in names if name not in {'self', 'cls'})})"


def described_by_module(module: object) -> set[str]:
    """The same of a compiled module."""
    found: set[str] = set()
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, type):
            found.add(name)
            found |= {f"{name}.{member}" for member in _members(value)}
        else:
            found |= {f"{name}{arguments}" for arguments in _compiled_arguments(value)}
    return found


def _members(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        is_ours = not name.startswith("_") or (name.startswith("__") and hasattr(value, "__nb_signature__"))
        if is_ours and name not in _ALWAYS:
            for arguments in _compiled_arguments(value):
                yield f"{name}{arguments}"


def _compiled_arguments(value: object) -> Iterator[str]:
    """The arguments of each overload; nothing for what is not a function."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    for signature, *_ in getattr(function, "__nb_signature__", [("", None)]):
        yield _argument_names(signature) if signature else ""


def _argument_names(signature: str) -> str:
    inside = signature[signature.index("(") + 1 : signature.rindex(")") if "->" not in signature else None]
    names, depth, word = [], 0, ""
    for character in inside:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            break
        if character == "," and depth == 0:
            names.append(word)
            word = ""
        else:
            word += character
    names.append(word)
    plain = [re.split(r"[:=]", name)[0].strip() for name in names]
    return f"({', '.join(name for name in plain if name not in {'', '*', '/', 'self', 'cls'})})"


def test_the_stub_is_the_module() -> None:
    """Nothing is in one of them alone."""
    stub, module = described_by_stub(STUB.read_text(encoding="utf-8")), described_by_module(_native)
    assert {"only in the stub": stub - module, "only in the module": module - stub} == {
        "only in the stub": set(),
        "only in the module": set(),
    }


def _compiled(*signatures: str) -> SimpleNamespace:
    return SimpleNamespace(__nb_signature__=[(signature, None, None) for signature in signatures])


def test_differences_are_seen() -> None:
    """A missing function, another argument name and a missing method each make a difference."""
    index = type("Index", (), {"match": _compiled("def match(self, batch: bytes, /) -> dict[int, list[int]]")})
    module = SimpleNamespace(
        encode=_compiled("def encode(a: tuple[int, str] = (1, 'x'), b: int = 2) -> bytes"), Index=index
    )
    stub = (
        "def encode(a: int, b: int = ...) -> bytes: ...\nclass Index:\n    def match(self, batch: bytes) -> None: ...\n"
    )
    assert described_by_stub(stub) == described_by_module(module) == {"encode(a, b)", "Index", "Index.match(batch)"}
    assert described_by_stub(stub.replace("b: int", "c: int")) != described_by_module(module)
    assert described_by_stub(stub.replace("match", "find")) != described_by_module(module)
    assert described_by_stub(stub + "def extra() -> None: ...\n") - described_by_module(module) == {"extra()"}


def test_the_longest_list_found_by_its_values_is_the_kernels() -> None:
    """What ``explain`` says of lists is what the index does."""
    source = (ROOT / "src" / "tidewire" / "_kernel" / "cpp" / "index_edit.cpp").read_text()
    found = re.search(r"kReplicasMax = (\d+)", source)
    assert found is not None
    assert int(found.group(1)) == ACCESS_VALUES_MAX

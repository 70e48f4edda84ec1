"""How every command speaks: one JSON document if asked, progress beside the answer, errors without a traceback.

In a document ``null`` is what is missing; a number that JSON does not know is a string: ``"NaN"``, ``"Infinity"``,
``"-Infinity"``.

Exit codes: 0 done, 1 the reader of our output went away, 2 an error with its stable code, 3 what was checked does not
hold, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperGroup

from tidewire.model.errors import TidewireError
from tidewire.model.text import visible_json

if TYPE_CHECKING:
    from rich.console import Console

    from tidewire.benchmarks.progress import Tell

ERROR_EXIT: Final = 2
INTERRUPTED_EXIT: Final = 130
BROKEN_PIPE_EXIT: Final = 1
VIOLATION_EXIT: Final = 3
WITH_PARENT: Final = "--with-parent"
"""A node that others run as a child ends with them."""

_Report = TypeVar("_Report")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on standard output.")]
JsonLines = Annotated[
    bool, typer.Option("--json", help="Print a JSON document a line, and nothing else, on standard output.")
]


def choices(*names: str) -> Callable[[str], list[str]]:
    """For an option that is one of these: what a shell completes. Whether it may be, the command decides."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


class Shell(TyperGroup):
    """The root command: whatever goes wrong below it is told in one way."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that the arguments name; always exits, unless asked not to."""
        arguments = list(sys.argv[1:] if args is None else args)
        _speak_any_text()
        try:
            result = super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except TidewireError as problem:
            _show_error(problem.code, problem.message, as_json="--json" in arguments)
            sys.exit(ERROR_EXIT)
        except typer.TyperException as problem:
            _show_refusal(problem, as_json="--json" in arguments)
            sys.exit(ERROR_EXIT)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(INTERRUPTED_EXIT)
        except BrokenPipeError:
            _forget_output()
            sys.exit(BROKEN_PIPE_EXIT)
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else 0)
        return result


def _speak_any_text() -> None:
    """A text from the command line may hold what the terminal cannot show; it must not end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, so that the interpreter's exit is quiet too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_refusal(problem: typer.TyperException, *, as_json: bool) -> None:
    """An unknown command or option, or an argument that cannot be."""
    context = getattr(problem, "ctx", None)
    message = problem.format_message()
    if not message:  # nothing was asked for, and the help is there already
        return
    if not as_json and context is not None:
        from tidewire.cli.marked import escape

        message = (
            escape(message, lines=True)
            + f"\n[dim]Examples and all options: {escape(context.command_path)} --help[/dim]"
        )
    _show_error("usage", message, as_json=as_json, is_marked_up=True)


def _show_error(code: str, message: str, *, as_json: bool, is_marked_up: bool = False) -> None:
    if as_json:  # one line: a command that does not end says one document a line
        import msgspec

        document = msgspec.json.encode({"error": {"code": code, "message": message}})
        try:
            sys.stdout.write(document.decode("utf-8", "backslashreplace") + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_output()
        return
    from rich.console import Console

    from tidewire.cli.marked import escape

    shown = message if is_marked_up else escape(message, lines=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error[/bold red] [red]\\[{code}][/red] {shown}")


def print_json(document: object) -> None:
    """The one document on standard output."""
    import msgspec

    text = msgspec.json.format(_encoded(document), indent=2)
    sys.stdout.write(visible_json(text.decode("utf-8", "backslashreplace")) + "\n")


def print_json_line(document: object) -> None:
    """One of many documents, each in a line of its own, at once."""
    sys.stdout.write(visible_json(_encoded(document).decode()) + "\n")
    sys.stdout.flush()


def _encoded(document: object) -> bytes:
    """In JSON, which knows no NaN and no infinities: they are the strings that the HTTP API has for them."""
    import msgspec

    encoded = msgspec.json.encode(document)
    if b"null" not in encoded:  # which they would be
        return encoded
    from tidewire.model.values import shown_float

    def finite(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: finite(value) for name, value in part.items()}
        if isinstance(part, list | tuple):
            return [finite(one) for one in part]
        return shown_float(part) if isinstance(part, float) else part

    return msgspec.json.encode(finite(msgspec.to_builtins(document, str_keys=True)))


def figure(number: float) -> str:
    """A number with about three digits that mean something."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def report(make: Callable[[Tell], _Report], show: Callable[[_Report], None], *, as_json: bool) -> None:
    """Make a report, with progress on the way; then the one document, or what people see."""
    with progress() as tell:
        made = make(tell)
    if as_json:
        print_json(made)
    else:
        show(made)


def console() -> Console:
    """Where answers for people go."""
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def progress() -> Iterator[Tell]:
    """Progress on standard error: a bar on a terminal, a line per stage elsewhere."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    out = Console(stderr=True, highlight=False)
    if not out.is_terminal:
        yield _line_by_line(out)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(stage: str, step: int = 0, steps: int = 0) -> None:
            bar.update(task, description=escape(stage), completed=step, total=steps or None)

        yield tell


def _line_by_line(out: Console) -> Tell:
    from rich.markup import escape

    told: list[str] = []

    def tell(stage: str, step: int = 0, steps: int = 0) -> None:  # noqa: ARG001 - a line says the stage only
        if told[-1:] != [stage]:
            told.append(stage)
            out.print(escape(stage), soft_wrap=True)

    return tell

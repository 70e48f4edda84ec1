"""`tidewire explain`: what a filter means, what it costs, and why it matches an event or not."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidewire.cli.shell import AsJson, console, print_json
from tidewire.language import Explanation, as_selector, decode_text, read_publication
from tidewire.language import explain as explain_filter
from tidewire.model.errors import UsageError
from tidewire.model.events import Event, make_event

_STDIN: Final = "-"
_FIRST_UNDECODED: Final = "\udc80"
_LAST_UNDECODED: Final = "\udcff"
"""What Python makes of the bytes of an argument that are not UTF-8."""

_COLOURS: Final = {"true": "green", "false": "red", "unknown": "yellow"}
_VERDICTS: Final = {
    "true": "matches",
    "false": "does not match: the filter is false",
    "unknown": "does not match: the filter is unknown",
}

FilterText = Annotated[
    str, typer.Argument(metavar="FILTER", help="A selector, or PADRES tuples; [bold]-[/bold] reads standard input.")
]
EventText = Annotated[
    str | None,
    typer.Argument(metavar="[EVENT]", help="JSON, or PADRES tuples; [bold]-[/bold] reads standard input."),
]


def explain(filter_text: FilterText, event_text: EventText = None, as_json: AsJson = False) -> None:
    """Say what FILTER means, what it costs and, given an EVENT, which predicate decided.

    [bold]Examples[/bold]

      tidewire explain "class = 'QUAKE' and magnitude >= 6"

      tidewire explain "price between 10 and 20" '{"price": 15.5}'

      tidewire explain "within(lat, lon, 38.3, 142.4, 300 km)" '{"lat": 38, "lon": 141}'

      tidewire explain "\\[class,eq,'STOCK'],\\[volume,>,15]" "\\[class,'STOCK'],\\[volume,20]"

      echo '{"magnitude": 6.4}' | tidewire explain "magnitude > 6" -

    A missing attribute or another type makes a predicate [italic]unknown[/italic]; only what is true matches.
    """
    if filter_text == event_text == _STDIN:
        raise UsageError("only one of FILTER and EVENT can come from standard input")
    wanted = _text_or_stdin(filter_text)
    event = None if event_text is None else read_event(_text_or_stdin(event_text))
    found = explain_filter(as_selector(wanted), None if event is None else event.attributes)
    if as_json:
        print_json(found)
    else:
        _show(found)


def _text_or_stdin(argument: str) -> str:
    if argument == _STDIN:
        return decode_text(sys.stdin.buffer.read()).strip()
    if any(_FIRST_UNDECODED <= c <= _LAST_UNDECODED for c in argument):
        return decode_text(os.fsencode(argument))
    return argument


def read_event(text: str) -> Event:
    """An event from JSON, or from the tuples of PADRES."""
    if text.lstrip().startswith("["):
        return make_event(read_publication(text))
    try:
        attributes: Any = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"the event is no JSON: {problem}") from problem
    if not isinstance(attributes, dict):
        raise UsageError('an event is a JSON object, such as {"class": "QUAKE", "magnitude": 6.4}')
    return make_event(attributes)


def _show(found: Explanation) -> None:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    rows.add_row("filter", marked(found))
    for meaning in found.meaning:
        rows.add_row("means", escape(meaning))
    if found.normal_form != found.text:
        rows.add_row("normal form", escape(found.normal_form))
    rows.add_row("cost", escape(found.cost_meaning))
    for access in found.access:
        rows.add_row("access", escape(access))
    for warning in found.warnings:
        rows.add_row("[yellow]beware[/yellow]", escape(warning))
    if found.outcome is not None:
        rows.add_row("", "")
        rows.add_row("event", f"[bold {_COLOURS[found.outcome]}]{_VERDICTS[found.outcome]}[/]")
        for decision in found.decisions:
            rows.add_row("because", escape(str(decision)))
    console().print(rows)


def marked(found: Explanation) -> Text:
    """The filter's text, with the predicates that decided in the colour of their outcome."""
    text = Text(found.text)
    for decision in found.decisions:
        if decision.start is not None and decision.end is not None:
            text.stylize(f"bold {_COLOURS[decision.outcome]}", decision.start, decision.end)
    return text

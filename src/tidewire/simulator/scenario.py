"""Scenarios as text (design §7.11): what happens, ``----``, and what must come of it.

link A B                            brokers come to be where they are named first
broker A role=edge heartbeat_s=1    with settings of their own
ann@B subscribe price > 10          a client comes to be where it is first named with a broker
ann change 1 price > 20             the first subscription gets another filter, in place
ann unsubscribe 1
bob@A advertise price >= 0          else a client that publishes has advertised nothing in particular
bob publish price=15 symbol='X'
bob publish 100 price=15            so many times, 5 ms apart, while the story goes on
bob unadvertise 1
migrate ann B · migrate bob B publish
cut A B · silence A B · mend A B · slow A B 20
crash A · stop A · restart A        crash ann · restart ann: a client's process, with a new session
drain A                             its clients go elsewhere; when they have gone it stops
slow reader ann 0.1                 reads so many Mbit/s
wait 2 · settle                     so many seconds; until all is in order
----
ann receives price=15 via A B, price=16    exactly these, in this order; the way from the source if it is said
ann receives nothing · ann receives 100 events · ann is told events lost
ann is brought 100 events           by brokers, with what the session keeps from the application
ann is at B · bob publishes at A · A is head
routes A of B: 2                    so many filters that A's neighbours told it, in the tree of B
all is well                         every checker of checkers.py; this is asked always
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.model.errors import UnknownName, UsageError
from tidewire.model.messages import Use
from tidewire.model.values import Value
from tidewire.simulator import faults
from tidewire.simulator.checkers import check
from tidewire.simulator.clients import ClientHost
from tidewire.simulator.world import World

PAUSE_S: Final = 0.5
"""After each line, so that what it began is through."""

PACE_S: Final = 0.005
NUMBER_MAX: Final = 1e6


class _Line(msgspec.Struct, frozen=True):
    """One line of the text."""

    number: int
    text: str


class Scenario:
    """A text, played."""

    def __init__(self, text: str, *, engine: str = "reference", seed: int = 0) -> None:
        story, _, end = text.partition("\n----\n")
        self._story = _lines(story, 1)
        self._end = _lines(end, story.count("\n") + 3)
        self.world = World(seed, engine=engine)

    def play(self) -> list[str]:
        """What did not come out as the text says?"""
        for line in self._story:
            with _told_with(line):
                self._act(line.text)
            self.world.run(PAUSE_S)
        self.world.run(5.0)
        found = [f"line {line.number}: {line.text}: {what}" for line in self._end for what in self._check(line)]
        return found + check(self.world)

    # -- the story -----------------------------------------------------------------------------------------------------

    def _act(self, text: str) -> None:
        words = text.split()
        verb = "slow reader" if words[:2] == ["slow", "reader"] else words[0]
        if verb not in _FORMS:
            self._client_acts(self._client(words[0]), " ".join(words[1:2]), " ".join(text.split(maxsplit=2)[2:]))
            return
        form, words = _FORMS[verb].split(), words[len(verb.split()) :]
        if len(words) < len(form):
            raise UsageError(f"{verb} has {_FORMS[verb]} behind it")
        for kind, word in zip(form, words, strict=False):
            _check_word(self.world, kind, word)
        if verb in ("link", "broker"):
            self._build(words[: len(form)], _settings(words[len(form) :]))
        else:
            _ACTIONS[verb](self.world, words)

    def _build(self, names: list[str], settings: dict[str, Any]) -> None:
        known = ("latency_ms", "mbps") if len(names) == 2 else BrokerConfig.__struct_fields__
        for name in settings:
            if name not in known:
                raise UnknownName(name, what="setting", known=known)
        for name in names:
            self._broker(name, **({} if len(names) == 2 else settings))
        if len(names) == 2:
            self.world.link(*names, **settings)

    def _broker(self, name: str, **settings: Any) -> None:
        if name not in self.world.brokers:
            self.world.add_broker(name, **settings)

    def _client(self, word: str) -> ClientHost:
        name, _, broker = word.partition("@")
        if name not in self.world.clients:
            if not broker:
                raise UsageError(f"{name} is nobody yet: say {name}@BROKER first")
            self._broker(broker)
            self.world.add_client(name, broker, *(other for other in self.world.brokers if other != broker))
        return self.world.clients[name]

    def _client_acts(self, client: ClientHost, verb: str, rest: str) -> None:
        match verb:
            case "subscribe":
                client.subscribe(len(client.spans) + 1, rest)
            case "change":
                number, _, text = rest.partition(" ")
                client.subscribe(int(_number(number)), text)
            case "unsubscribe":
                client.unsubscribe(int(_number(rest)))
            case "advertise":
                client.advertise(1, rest)
            case "unadvertise":
                client.unadvertise(int(_number(rest)))
            case "publish":
                self._publish(client, rest)
            case _:
                raise UsageError(f"nobody can {verb}")

    def _publish(self, client: ClientHost, rest: str) -> None:
        if not client.has_advertised:
            client.advertise(1)
        count, attributes = re.fullmatch(r"(?:(\d+) )?(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
        event = _attributes(attributes)
        if count is None:
            client.publish(event)
            return
        for at in range(int(count)):
            self.world.agenda.after(int(at * PACE_S * 1e9), lambda: client.publish(event))

    # -- the end -------------------------------------------------------------------------------------------------------

    def _check(self, line: _Line) -> list[str]:
        for pattern, kinds, expect in _EXPECTATIONS:
            if found := re.fullmatch(pattern, line.text):
                with _told_with(line):
                    for kind, word in zip(kinds, found.groups(), strict=False):
                        _check_word(self.world, kind, word)
                return expect(self.world, *found.groups())
        raise UsageError(f"line {line.number}: this says nothing: {line.text}")


@contextmanager
def _told_with(line: _Line) -> Iterator[None]:
    """A mistake is told with its line."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"line {line.number}: {line.text}: {error.message}") from None


def _check_word(world: World, kind: str, word: str) -> None:
    """Is there such a broker, client or node? Is it a number?"""
    known = {"BROKER": [*world.brokers], "CLIENT": [*world.clients], "NODE": [*world.brokers, *world.clients]}
    if kind == "NUMBER":
        _number(word)
    elif kind in known and word not in known[kind]:
        raise UnknownName(word, what=kind.lower(), known=known[kind])


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0 < number < NUMBER_MAX:
        raise UsageError(f"{word!r}: a number between 0 and {NUMBER_MAX:g} belongs here")
    return number


def _lines(text: str, first: int) -> list[_Line]:
    stripped = [(first + at, line.split("#")[0].strip()) for at, line in enumerate(text.split("\n"))]
    return [_Line(number, line) for number, line in stripped if line]


def _settings(words: list[str]) -> dict[str, Any]:
    for word in words:
        if "=" not in word:
            raise UsageError(f"{word!r}: a setting is NAME=VALUE")
    return {name: _value(text) for name, text in (word.split("=", 1) for word in words)}


def _attributes(text: str) -> dict[str, Value]:
    found = re.findall(r"(\w+)=('[^']*'|\S+)", text)
    return {name: _value(value) for name, value in found}


def _value(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _use(words: list[str]) -> Use:
    return "publish" if "publish" in words else "subscribe"


def _read_slowly(world: World, words: list[str]) -> None:
    world.clients[words[0]].read_ns_per_byte = 8e3 / float(words[1])


_FORMS: Final = {
    "link": "NAME NAME",
    "broker": "NAME",
    "wait": "NUMBER",
    "settle": "",
    "migrate": "CLIENT BROKER",
    "cut": "NODE NODE",
    "silence": "NODE NODE",
    "mend": "NODE NODE",
    "slow": "NODE NODE NUMBER",
    "slow reader": "CLIENT NUMBER",
    "crash": "NODE",
    "drain": "BROKER",
    "stop": "BROKER",
    "restart": "NODE",
}
"""What stands behind each verb that is no client's."""

_ACTIONS: Final[dict[str, Callable[[World, list[str]], object]]] = {
    "wait": lambda world, words: world.run(float(words[0])),
    "settle": lambda world, _words: world.settle(),
    "migrate": lambda world, words: faults.migrate(world, words[0], words[1], use=_use(words)),
    "cut": lambda world, words: faults.cut(world, words[0], words[1]),
    "silence": lambda world, words: faults.cut(world, words[0], words[1], is_silent=True),
    "mend": lambda world, words: faults.mend(world, words[0], words[1]),
    "slow": lambda world, words: faults.slow(world, words[0], words[1], factor=float(words[2])),
    "crash": lambda world, words: faults.crash(world, words[0]),
    "drain": lambda world, words: faults.drain(world, words[0]),
    "stop": lambda world, words: faults.stop(world, words[0]),
    "restart": lambda world, words: faults.restart(world, words[0]),
    "slow reader": _read_slowly,
}


def _receives(world: World, name: str, rest: str) -> list[str]:
    receipts = world.clients[name].receipts
    if counted := re.fullmatch(r"(\d+) events?", rest):
        is_so = len(receipts) == int(counted[1])
        return [] if is_so else [f"{name} received {len(receipts)}"]
    if rest == "nothing":
        return [f"{name} received {dict(receipt.attributes)}" for receipt in receipts]
    wanted = [_expected(part) for part in rest.split(", ")]
    got = [(dict(receipt.attributes), " ".join(receipt.via)) for receipt in receipts]
    is_so = len(got) == len(wanted) and all(
        event == attributes and via in (None, by) for (attributes, by), (event, via) in zip(got, wanted, strict=True)
    )
    return [] if is_so else [f"{name} received {got}"]


def _expected(text: str) -> tuple[dict[str, Value], str | None]:
    event, _, via = text.partition(" via ")
    return _attributes(event), via or None


def _is_brought(world: World, name: str, count: str) -> list[str]:
    brought = sum(one.count for line in world.clients[name].lines for one in line.arrivals)
    return [] if brought == int(count) else [f"{name} was brought {brought}"]


def _is_told(world: World, name: str, what: str) -> list[str]:
    told = [one.what for _, one in world.clients[name].told]
    return [] if what in told else [f"{name} was told {told}"]


def _is_at(world: World, name: str, where: str, use: Use) -> list[str]:
    at = world.clients[name].core.broker(use)
    return [] if at == where else [f"{name} is at {at}"]


def _has_role(world: World, name: str, role: str) -> list[str]:
    node = world.brokers[name].node
    is_now = "down" if node is None else node.core.links.role
    return [] if is_now == role else [f"{name} is {is_now}"]


def _routes(world: World, at: str, source: str, count: str) -> list[str]:
    node = world.brokers[at].node
    branch = None if node is None else node.core.router.branch(world.brokers[source].tree)
    routes = 0 if branch is None else sum(map(len, branch.routes.values()))
    return [] if routes == int(count) else [f"{at} has {routes}"]


_EXPECTATIONS: Final[list[tuple[str, tuple[str, ...], Callable[..., list[str]]]]] = [
    (r"(\w+) receives (.*)", ("CLIENT",), _receives),
    (r"(\w+) is told (.*)", ("CLIENT",), _is_told),
    (r"(\w+) is brought (\d+) events?", ("CLIENT",), _is_brought),
    (r"(\w+) is at (\w+)", ("CLIENT",), lambda world, name, where: _is_at(world, name, where, "subscribe")),
    (r"(\w+) publishes at (\w+)", ("CLIENT",), lambda world, name, where: _is_at(world, name, where, "publish")),
    (r"(\w+) is (head|edge|both|down)", ("BROKER",), _has_role),
    (r"routes (\w+) of (\w+): (\d+)", ("BROKER", "BROKER"), _routes),
    (r"all is well", (), lambda _world: []),
]

"""An edge beside its neighbours: each engine with streams, and what tests about streams from afar say and look at."""

from __future__ import annotations

from typing import Any

from tests.dataplane.streaming import STREAM_MAKERS, got, stream, trust
from tests.dataplane.world import receive
from tidewire.dataplane.protocol import WhenFull
from tidewire.dataplane.stream_news import StreamNews
from tidewire.dataplane.streams import StreamEngine, StreamState
from tidewire.model.filters import ALL, Filter, encode_filter
from tidewire.model.ids import Conn, PubendId, Tick, TreeId

BOB, CAT, NORTH, SOUTH, EAST = Conn(0), Conn(1), Conn(2), Conn(3), Conn(4)
OWN, TREE, OTHER = TreeId(1), TreeId(20), TreeId(30)
PUBEND = PubendId(70)


def edge(name: str, *, bound: int = 1 << 20, when_full: WhenFull = "wait", **options: Any) -> StreamEngine:
    """This engine with two clients and three neighbours; North is the parent of a tree and tells of one pubend."""
    engine = STREAM_MAKERS[name](**options)
    engine.own_tree(OWN)
    for conn in (BOB, CAT, NORTH, SOUTH, EAST):
        is_link = conn >= NORTH
        engine.open(conn, is_link=is_link, when_full="wait" if is_link else when_full, queue_bytes_max=bound)
    engine.set_parent(TREE, NORTH)
    return engine


def comes(engine: StreamEngine, *spans: tuple[int, int] | tuple[int, int, int], kind: int = 0) -> StreamNews:
    """North tells of these ticks, with the attribute n of the event at the last one, if there is one."""
    data = b"".join(
        stream(span[0], span[1], span[2] if len(span) == 3 else None, tree=TREE, pubend=PUBEND, kind=kind)
        for span in spans
    )
    said = receive(engine, NORTH, data)
    assert said.state == "idle"
    return said.news


def route(engine: StreamEngine, conn: Conn, wanted: Filter = ALL, *, number: int = 1, tree: TreeId = TREE) -> None:
    """One route."""
    engine.add_routes(conn, [number], [encode_filter(wanted)], tree if conn >= NORTH else None)


def state(engine: StreamEngine) -> StreamState:
    """How the stream stands."""
    (found,) = engine.streams()
    return found


def events(engine: StreamEngine, conn: Conn = BOB) -> list[int]:
    """The attribute n of the events that wait for a client."""
    return [n for _, _, n in got(engine, conn).events]


def attended(engine: StreamEngine, place: int = 100) -> StreamEngine:
    """Bob wants everything, silence is trusted, and the stream is owed from here on."""
    trust(engine, TREE, PUBEND, place)
    route(engine, BOB)
    engine.attend(PUBEND, Tick(place))
    return engine

"""What an engine tells of its streams, beside what is in the queues."""

from __future__ import annotations

import msgspec

from tidewire.model.ids import Conn, PubendId, Tick, TreeId


class Replayed(msgspec.Struct, frozen=True):
    """How far a replay has come."""

    replay: int
    place: Tick
    """The next tick that is owed."""

    is_over: bool = False
    """It is at the end of its bytes, or what comes next is not here, or the follower has joined."""

    is_joined: bool = False


class Fallen(msgspec.Struct, frozen=True):
    """A follower whose connection has no room: it is behind now, and owed everything from here on."""

    conn: Conn
    number: int
    pubend: PubendId
    place: Tick


class Lack(msgspec.Struct, frozen=True):
    """Ticks that are lost for good, for a follower that is owed them."""

    conn: Conn
    number: int
    pubend: PubendId
    first: Tick
    last: Tick


class Unknown(msgspec.Struct, frozen=True):
    """Ticks that a neighbour waits for, and that are not known here, or no longer: they have to be asked for."""

    tree: TreeId
    pubend: PubendId
    first: Tick
    end: Tick


class StreamNews(msgspec.Struct, frozen=True):
    """What has happened to streams during a call."""

    doubtful: list[PubendId] = []
    """Streams that are attended, and have become unknown somewhere."""

    replayed: list[Replayed] = []
    fallen: list[Fallen] = []
    lacks: list[Lack] = []
    unknown: list[Unknown] = []

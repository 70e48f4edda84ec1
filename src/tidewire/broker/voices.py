"""At how many edges of a cluster does an identity listen? It has one voice, which its connections share.

An edge tells its head who has come and gone, and the head tells edges whose voice they share with others. Only of
identities: where nobody has one, every connection speaks for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidewire.congestion.fdcc.intake import Voice
from tidewire.model.ids import Conn
from tidewire.model.shortage_messages import FLOWS_MAX, SharedVoices
from tidewire.wire.connections import Send

TOLD_MAX: Final = FLOWS_MAX
"""In one period; the others have their turn in the next."""


class EdgeVoices:
    """Those who listen at one edge."""

    def __init__(self) -> None:
        self._told: dict[Conn, dict[Voice, None]] = {}
        """What each head knows, by its control lane."""
        self._shared: dict[Conn, dict[Voice, int]] = {}

    def gone(self, conn: Conn) -> None:
        """A lane has ended: what is said on the next begins anew."""
        self._told.pop(conn, None)
        self._shared.pop(conn, None)

    def news(self, head: Conn, there: dict[Voice, None]) -> tuple[list[str], list[str]]:
        """Who has come and who has gone, as far as this head does not know it."""
        told = self._told.setdefault(head, {})
        came = [voice for voice in there if voice not in told][:TOLD_MAX]
        gone = [voice for voice in told if voice not in there][:TOLD_MAX]
        told.update(dict.fromkeys(came))
        for voice in gone:
            del told[voice]
        return [str(voice) for voice in came], [str(voice) for voice in gone]

    def heard(self, head: Conn, message: SharedVoices) -> None:
        """At how many edges these are."""
        known = self._shared.setdefault(head, {})
        for voice, edges in message.edges:
            known.pop(Voice(voice), None)
            if edges > 1:
                known[Voice(voice)] = edges

    def share(self, voice: Voice) -> float:
        """How much of a voice is ours."""
        return 1 / max((known.get(voice, 1) for known in self._shared.values()), default=1)


class HeadVoices:
    """Those who listen at the edges of a cluster."""

    def __init__(self) -> None:
        self._at: dict[Voice, dict[Conn, None]] = {}
        self._edges: dict[Conn, None] = {}

    def said(self, edge: Conn, came: Iterable[str], gone: Iterable[str]) -> Iterator[Send]:
        """An edge tells who has come and gone; those that share a voice are told."""
        changed: dict[Voice, None] = {}
        self._edges[edge] = None
        for voice in map(Voice, came):
            self._at.setdefault(voice, {})[edge] = None
            changed[voice] = None
        for voice in map(Voice, gone):
            self._remove(voice, edge)
            changed[voice] = None
        yield from self._told(changed)

    def gone(self, edge: Conn) -> Iterator[Send]:
        """A lane to an edge has ended; whatever else has ended takes no look."""
        if edge not in self._edges:
            return
        del self._edges[edge]
        there = [voice for voice, edges in self._at.items() if edge in edges]
        for voice in there:
            self._remove(voice, edge)
        yield from self._told(dict.fromkeys(there))

    def _remove(self, voice: Voice, edge: Conn) -> None:
        edges = self._at.get(voice, {})
        edges.pop(edge, None)
        if not edges:
            self._at.pop(voice, None)

    def _told(self, voices: dict[Voice, None]) -> Iterator[Send]:
        news: dict[Conn, list[tuple[str, int]]] = {}
        for voice in voices:
            edges = self._at.get(voice, {})
            for edge in edges:
                news.setdefault(edge, []).append((voice, len(edges)))
        for edge, told in news.items():
            for at in range(0, len(told), FLOWS_MAX):
                yield Send(edge, SharedVoices(told[at : at + FLOWS_MAX]), "control")

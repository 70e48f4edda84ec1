"""Whose opinion counts, and how much? Nobody's counts more than is its due, however often and wherever it speaks.

- A connection is heard once in a period; what comes more often is not.
- It is heard only about publishers that it can have had events from: who publishes something that it subscribes to.
- One identity has one voice: its connections share it, so that to come twice brings nothing (epeer Eq 2, W and S(p)).
- A weight is at most 1, and what is said is cut to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NewType

from tidewire.congestion.fdcc.utility import Judgement, judgement
from tidewire.model.ids import Conn, Nanoseconds
from tidewire.model.shortage_messages import Opinion
from tidewire.model.traffic import ClassKey

Voice = NewType("Voice", str)
"""Who speaks: an identity; of those who have none, each connection for itself."""

HeardOf = tuple[int, int, ClassKey]
"""Where events come from (a tree or a pubend), their publisher, and their class."""

EARLY_SHARE: Final = 0.5
"""Clocks and timers are not exact: after this share of a period the next one may be said."""


class Intake:
    """What the subscribers of one broker say."""

    def __init__(self, *, period_ns: int) -> None:
        self._early_ns = int(period_ns * EARLY_SHARE)
        self._last: dict[Conn, Nanoseconds] = {}
        self._said: dict[HeardOf, dict[Voice, list[float]]] = {}
        """By what it is about, and who says it: the sum of weighted opinions, how many, and the largest weight."""
        self.heard = self.ignored_often = self.ignored_unknown = 0
        """Messages that counted, messages that came too often, opinions about those that it cannot know."""

    def gone(self, conn: Conn) -> None:
        """It will say nothing more."""
        self._last.pop(conn, None)

    def said(
        self,
        conn: Conn,
        opinions: Iterable[Opinion],
        *,
        voice: Voice,
        weight: float,
        may_know: Callable[[Opinion], bool],
        now_ns: Nanoseconds,
    ) -> bool:
        """A subscriber has spoken. Did it count? ``may_know``: can it have got such events?"""
        last = self._last.get(conn)
        if last is not None and now_ns - last < self._early_ns:
            self.ignored_often += 1
            return False
        self._last[conn] = now_ns
        self.heard += 1
        named: dict[HeardOf, None] = {}
        for one in opinions:
            about = one.source, one.publisher, ClassKey(one.traffic_class)
            if about in named or not may_know(one):
                self.ignored_unknown += 1
                continue
            named[about] = None
            known = self._said.setdefault(about, {}).setdefault(voice, [0.0, 0.0])
            known[0] += judgement(one.utility, weight=weight).weighted
            known[1] += 1
        return True

    def taken(self, share_of: Callable[[Voice], float] = lambda _: 1.0) -> dict[HeardOf, Judgement]:
        """All that was said, summed up: of each voice the average of what its connections said. It begins anew.

        ``share_of``: how much of a voice is ours, of those that speak at other brokers too.
        """
        said, self._said = self._said, {}
        found = dict.fromkeys(said, Judgement())
        for about, voices in said.items():
            for voice, (total, count) in voices.items():
                share = share_of(voice)
                found[about] += Judgement(share * total / count, share)
        return found

"""The streams that come to this broker: how they come along, and what of them is to be asked for again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from tidewire.broker.effects import Effect
from tidewire.broker.stream_events import Attend
from tidewire.congestion.config import CongestionConfig
from tidewire.congestion.policies import window_policy
from tidewire.congestion.progress import Progress
from tidewire.dataplane.streams import Range, StreamState
from tidewire.delivery.nacks import Nacks
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import Nanoseconds, PubendId, Tick, TreeId
from tidewire.model.ticks import ticks_of

QUIET_NS: Final = 2_500_000_000
"""Without a query for so long, a stream was idle."""


class _Attended:
    """One stream that local subscribers are owed."""

    def __init__(self, config: CongestionConfig, state: StreamState, *, now_ns: Nanoseconds) -> None:
        assert state.horizon is not None
        self.progress = Progress(config, horizon=state.horizon, now_ns=now_ns)
        self.nacks = Nacks()
        step, first, most = config.nack_ms, config.nack_window_ms, config.receive_window_ms
        self.window = window_policy(config)(config, first=first, step=step, most=most)
        self.queried_ns = Nanoseconds(0)
        self.recovering_to = Tick(0)
        """It was behind by more than its window up to here, and has not come beyond it yet."""


class Coming(msgspec.Struct, frozen=True):
    """How one stream comes along."""

    progress: float
    """Seconds of stream in a second, smoothed."""

    window_ms: int
    """How much of what is unknown may be asked for."""

    is_recovering: bool


class Attending:
    """All streams that come here."""

    def __init__(self, config: CongestionConfig) -> None:
        self._config = config
        self._states: dict[PubendId, StreamState] = {}
        self._attended: dict[PubendId, _Attended] = {}

    def begin(self, tree: TreeId, heads: list[tuple[PubendId, Tick]]) -> Iterator[Effect]:
        """The way to the source is known to be right, from these ticks on: what is not attended yet begins there."""
        for pubend, head in heads:
            state = self._states.get(pubend)
            if state is None or state.horizon is None:
                self._states[pubend] = StreamState(pubend, tree, head, head, head, Tick(0))
                yield Attend(pubend, head)

    def end(self, is_owed: Callable[[TreeId], bool]) -> Iterator[Effect]:
        """Of the others nobody here is owed anything any more: one who comes later begins where it is then."""
        for pubend in list(self._attended):
            state = self._states[pubend]
            if state.tree is not None and not is_owed(state.tree):
                del self._attended[pubend], self._states[pubend]
                yield Attend(pubend, None)

    def tree_of(self, pubend: PubendId) -> TreeId | None:
        """The tree that it comes by."""
        state = self._states.get(pubend)
        return None if state is None else state.tree

    def is_cached(self, pubend: PubendId, place: Tick) -> bool:
        """Can it be replayed from here?"""
        state = self._states.get(pubend)
        return state is not None and state.cached <= place < state.heard

    def ahead(self, heads: Mapping[PubendId, Tick]) -> dict[PubendId, Tick]:
        """Those that have not come so far here."""
        known = ((self._states.get(pubend), pubend, head) for pubend, head in heads.items())
        return {pubend: head for state, pubend, head in known if state and (state.horizon or head) < head}

    def seen(self, state: StreamState, *, now_ns: Nanoseconds) -> None:
        """How one of them stands."""
        self._states[state.pubend] = state
        if state.horizon is None:
            self._attended.pop(state.pubend, None)
            return
        one = self._attended.get(state.pubend)
        if one is None:
            one = self._attended[state.pubend] = _Attended(self._config, state, now_ns=now_ns)
        one.progress.sample(horizon=state.horizon, now_ns=now_ns)
        if one.recovering_to and state.horizon > one.recovering_to:
            one.recovering_to = Tick(0)
        if state.ignored > state.horizon:
            if not one.recovering_to:
                one.window.restart(now_ns=now_ns)
            one.recovering_to = max(one.recovering_to, state.ignored)
        for asked_ns in one.nacks.known(state.horizon):
            one.window.answered(asked_ns=asked_ns, now_ns=now_ns)

    def queried(self, query: Query, *, now_ns: Nanoseconds) -> Alert | None:
        """Does it come along as it should?"""
        one, state = self._attended.get(query.pubend), self._states.get(query.pubend)
        if one is None or state is None or state.horizon is None:
            return None
        was_quiet, one.queried_ns = now_ns - one.queried_ns > QUIET_NS, now_ns
        if was_quiet and not one.recovering_to:
            # It was idle, and the query has overtaken what ends that: nothing can be said yet, and it comes along anew.
            one.progress = Progress(self._config, horizon=state.horizon, now_ns=now_ns)
            return None
        return one.progress.answer(query, horizon=state.horizon, is_recovering=bool(one.recovering_to))

    def window_end(self, pubend: PubendId) -> Tick | None:
        """Up to where may be asked for what is unknown? None: it is not attended."""
        one, state = self._attended.get(pubend), self._states.get(pubend)
        if one is None or state is None or state.horizon is None:
            return None
        return Tick(state.horizon + ticks_of(int(one.window.size)))

    def to_ask(self, pubend: PubendId, ranges: list[Range], *, now_ns: Nanoseconds) -> list[Range]:
        """Of what is unknown, what has not been asked for lately."""
        one = self._attended.get(pubend)
        return [] if one is None else one.nacks.ask(ranges, retry_ns=one.window.retry_ns, now_ns=now_ns)

    def coming(self) -> dict[PubendId, Coming]:
        """How those come along that somebody here is owed."""
        return {
            pubend: Coming(one.progress.smoothed, int(one.window.size), bool(one.recovering_to))
            for pubend, one in self._attended.items()
        }

    def attended(self) -> list[PubendId]:
        """The streams that somebody here is owed."""
        return list(self._attended)

"""Whatever is told, lost, doubled or late: gryphon §5, the properties of streams."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidewire.delivery.horizon import EdgeStream
from tidewire.delivery.knowledge import DATA, FINAL, SILENCE, UNKNOWN, Knowledge, State
from tidewire.delivery.ticks import TickClock
from tidewire.model.errors import ContradictoryTick
from tidewire.model.ids import Nanoseconds, Tick
from tidewire.model.ticks import ms_of, tick_at

SPAN = 40
tellings = st.lists(
    st.tuples(
        st.integers(0, SPAN), st.integers(0, 12), st.sampled_from([DATA, SILENCE, FINAL]), st.integers(0, 9).map(bool)
    ),
    max_size=30,
)


class Plain:
    """What ``Knowledge`` is, tick by tick."""

    def __init__(self) -> None:
        self.states: list[State] = [UNKNOWN] * (2 * SPAN)

    def tell(self, start: int, end: int, state: State) -> list[int]:
        part = self.states[start:end]
        if any({known, state} == {DATA, SILENCE} for known in part):
            raise ContradictoryTick("")
        self.states[start:end] = [FINAL if known is FINAL else state for known in part]
        return [tick for tick, known in enumerate(part, start=start) if known is UNKNOWN]

    def forget(self, below: int) -> None:
        self.states[:below] = [FINAL] * below

    @property
    def horizon(self) -> int:
        return self.states.index(UNKNOWN)


@given(tellings)
def test_runs_are_what_single_ticks_would_be(told: list[tuple[int, int, State, bool]]) -> None:
    """gryphon §1.1, §5: also, the horizon never goes back, F never becomes another state, and no run is in vain."""
    runs, plain = Knowledge(start=Tick(0)), Plain()
    for start, length, state, is_telling in told:
        before, horizon = list(plain.states), runs.horizon
        if not is_telling:
            plain.forget(start)
            runs.forget(below=Tick(start))
        else:
            try:
                news = plain.tell(start, start + length, state)
            except ContradictoryTick:
                news = None
            try:
                told_news = runs.tell(Tick(start), Tick(start + length), state)
                assert news == [tick for first, last in told_news for tick in range(first, last)]
            except ContradictoryTick:
                assert news is None
        assert [runs.state_of(Tick(tick)) for tick in range(2 * SPAN)] == plain.states
        assert [s for a, b, s in runs.runs(Tick(0), Tick(2 * SPAN)) for _ in range(a, b)] == plain.states
        assert runs.horizon == plain.horizon >= horizon
        assert all(plain.states[tick] is FINAL for tick, was in enumerate(before) if was is FINAL)
        kept = plain.states[runs.start :]
        changes = sum(one is not other for one, other in pairwise(kept))
        assert runs.runs_kept == 1 + changes


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.sampled_from(["take", "silence", "restart"]))))
def test_a_tick_is_given_once_and_in_order(steps: list[tuple[int, int, str]]) -> None:
    """gryphon §1.1: whatever the clock does; no event gets a tick that was promised to be silent."""
    clock, last = TickClock(last=Tick(0)), 0
    for count, unix_ms, step in steps:
        if step == "restart":
            clock = TickClock(last=clock.last)
        elif step == "silence":
            last = clock.promise_silence(unix_ms=unix_ms)
            assert last >= tick_at(unix_ms) - 1
        else:
            first = clock.take(count, unix_ms=unix_ms)
            assert first > last
            assert ms_of(first) >= unix_ms
            last = first + count - 1


LAST = 120


class Lossy:
    """A log, a channel that loses, doubles and mixes messages, and an edge that wants every event once."""

    def __init__(self, seed: int, *, receive: int, nack_size: int, loss: float) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.receive = receive
        self.log = {tick: None for tick in range(1, LAST) if self.random.random() < 0.3}
        self.edge = EdgeStream(start=Tick(1), receive_window=receive, nack_size=nack_size, now_ns=Nanoseconds(0))
        self.on_the_way: list[tuple[Tick, State]] = []
        self.held: dict[int, None] = {}
        self.delivered: list[int] = []

    def send(self, start: int, end: int) -> None:
        """These ticks as they are in the log."""
        for tick in range(start, end):
            if self.random.random() >= self.loss:
                state = DATA if tick in self.log else SILENCE
                self.on_the_way.extend([(Tick(tick), state)] * self.random.choice([1, 1, 2]))

    def arrive(self, now: int) -> None:
        """Some of what is on the way, in any order; sometimes a link fails with all that is on it."""
        if self.random.random() < 0.1:
            self.on_the_way.clear()
        self.random.shuffle(self.on_the_way)
        for _ in range(min(len(self.on_the_way), self.random.randint(0, 30))):
            tick, state = self.on_the_way.pop()
            before = self.edge.horizon
            if self.edge.update(tick, Tick(tick + 1), state, now_ns=Nanoseconds(now)):
                assert tick < before + self.receive
                assert tick not in self.held
                if state is DATA:
                    self.held[tick] = None
            assert self.edge.horizon >= before
            self.deliver()

    def deliver(self) -> None:
        ready = sorted(tick for tick in self.held if tick < self.edge.horizon)
        self.delivered += ready
        for tick in ready:
            del self.held[tick]
        self.edge.finish(below=self.edge.horizon)
        assert self.edge.knowledge.runs_kept <= self.receive + 2


@given(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 40), st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.6])
)
def test_each_event_once_and_in_order(seed: int, receive: int, window: int, nack_size: int, loss: float) -> None:
    """gryphon §5: what is delivered is the filtered log, under any loss, doubling and disorder, with bounded memory."""
    world = Lossy(seed, receive=receive, nack_size=nack_size, loss=loss)
    edge, published, now = world.edge, 1, 0
    while edge.horizon < LAST:
        now += 1
        assert now < 20_000, "it never ends"
        upto = min(LAST, published + world.random.randint(1, 20))
        world.send(published, upto)
        published = upto
        if world.random.random() < 0.2:
            edge.heard_of(Tick(published - 1))
        world.arrive(now)
        for first, last in edge.nacks(window=window, retry_ns=3, now_ns=Nanoseconds(now)):
            assert edge.horizon <= first < last <= min(published, edge.horizon + min(window, receive))
            assert last - first <= nack_size
            assert all(edge.knowledge.state_of(Tick(tick)) is UNKNOWN for tick in range(first, last))
            world.send(first, last)
    assert world.delivered == list(world.log)
    assert not edge.is_recovering


@given(st.integers(0, 2**32))
def test_nothing_is_asked_for_while_it_is_outstanding(seed: int) -> None:
    """gryphon §1.2: no tick twice within the timeout; and all that is missing within the window, in the end."""
    random = Random(seed)
    edge = EdgeStream(start=Tick(1), receive_window=100, nack_size=random.randint(1, 9), now_ns=Nanoseconds(0))
    asked_at: dict[int, int] = {}
    for now in range(60):
        if random.random() < 0.5:
            at = random.randint(1, 90)
            edge.update(Tick(at), Tick(at + random.randint(1, 4)), SILENCE, now_ns=Nanoseconds(now))
        window = random.choice([5, 20, 60])
        top = edge.knowledge.head
        wanted = edge.nacks(window=window, retry_ns=10, now_ns=Nanoseconds(now))
        for first, last in wanted:
            for tick in range(first, last):
                assert now - asked_at.get(tick, -10) >= 10
                asked_at[tick] = now
        for first, last in edge.knowledge.unknown(edge.horizon, min(top, Tick(edge.horizon + window))):
            assert all(now - asked_at[tick] < 10 for tick in range(first, last))

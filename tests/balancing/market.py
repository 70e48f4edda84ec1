"""Small markets for the tests of balancing: the one of peer G3, and random ones in which vectors and covering agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tidewire.balancing.clientele import Clientele, Wanted
from tidewire.balancing.estimates import LoadInfo
from tidewire.balancing.plans import OffloadSnapshot, Plan
from tidewire.balancing.press import Press, Profile
from tidewire.language import compile_filter
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds

NOW = Nanoseconds(0)
ACCEPTOR = BrokerId("B2")

EVENTS: list[dict[str, Any]] = [
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "RACING"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
]
STOCK, OVER_15, OVER_150, SPORTS = Conn(1), Conn(2), Conn(3), Conn(4)
OURS = {
    STOCK: ["class = 'STOCK'"],
    OVER_15: ["class = 'STOCK' and volume > 15"],
    OVER_150: ["class = 'STOCK' and volume > 150"],
    SPORTS: ["class = 'SPORTS'"],
}
THEIRS = ["class = 'STOCK' and volume > 50", "class = 'STOCK' and volume < 5", "class = 'MOVIES'"]


def encoded(texts: Sequence[str]) -> Wanted:
    return tuple(sorted(encode_filter(compile_filter(text)) for text in texts))


def profile_of(
    clients: Mapping[Conn, Sequence[str]],
    theirs: Sequence[str],
    *,
    events: Sequence[Mapping[str, Any]] = EVENTS,
    kept: Sequence[Conn] = (),
    leaving: Sequence[Conn] = (),
    input_rate: float = 3.0,
    event_bytes: float = 200.0,
) -> Profile:
    """What PRESS says, if these events are the samples."""
    press = Press(samples_max=len(events), until_ns=Nanoseconds(1))
    filters = {text: compile_filter(text) for texts in [*clients.values(), theirs] for text in texts}
    for event in events:
        wanting = [one for one, texts in clients.items() if any(filters[text].accepts(event) for text in texts)]
        press.take(wanting, acceptor=any(filters[text].accepts(event) for text in theirs))
    wanted = {one: encoded(texts) for one, texts in clients.items()}
    return press.profile(
        Clientele(wanted), staying=kept, leaving=leaving, input_rate=input_rate, event_bytes=event_bytes
    )


def linear(
    rate: float, subscriptions: int, *, slope_s: float, output: float = 0.0, output_max: float = 1e9
) -> LoadInfo:
    """A broker as the thesis's simulator has them: nothing else takes time."""
    return LoadInfo(
        input_rate=rate,
        matching_delay_s=slope_s * subscriptions,
        matching_slope_s=slope_s,
        cpu_utilisation=min(1.0, rate * slope_s * subscriptions),
        subscriptions=subscriptions,
        output_bytes_s=output,
        output_bytes_s_max=output_max,
    )


def snapshot_of(
    profile: Profile, donor: LoadInfo, acceptor: LoadInfo, *, theirs: Sequence[str] = (), is_overloaded: bool = False
) -> OffloadSnapshot:
    return OffloadSnapshot(
        is_overloaded=is_overloaded,
        to=ACCEPTOR,
        donor=donor,
        acceptor=acceptor,
        acceptor_filters=encoded(theirs),
        profile=profile,
    )


def moved(plan: Plan) -> list[Conn]:
    assert {move.to for move in plan.moves} <= {ACCEPTOR}
    return [move.client for move in plan.moves]


# -- random ones -------------------------------------------------------------------------------------------------------

_texts = st.builds(
    lambda low, width, row: f"x >= {low} and x < {low + width}" + ("" if row is None else f" and y = {row}"),
    st.integers(0, 9),
    st.integers(1, 10),
    st.none() | st.integers(0, 2),
)
_events = st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.integers(0, 2)})


@st.composite
def loads(draw: st.DrawFn, *, rate: float, subscriptions: int) -> LoadInfo:
    """A broker under any load, with a backlog or without."""
    delay_s = draw(st.floats(0.0, 1.5)) / max(rate, 1.0)
    used = rate * delay_s
    return LoadInfo(
        input_rate=rate,
        matching_delay_s=delay_s,
        matching_slope_s=draw(st.sampled_from([0.0, 0.2, 1.0])) * delay_s / max(subscriptions, 1),
        cpu_utilisation=min(1.0, used + draw(st.sampled_from([0.0, 0.0, 0.5]))),
        subscriptions=subscriptions,
        output_bytes_s=draw(st.floats(0.0, 5000.0)),
        output_bytes_s_max=draw(st.floats(2000.0, 8000.0)),
        queued_in_bytes=draw(st.sampled_from([0.0, 100.0])),
        queued_out_bytes=draw(st.sampled_from([0.0, 100.0])),
        engine_bytes=100.0 * subscriptions,
        memory_bytes_max=draw(st.sampled_from([1e9, 5000.0])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> OffloadSnapshot:
    """Up to a dozen kinds of clients, some with several subscriptions, some of whom stay; many are alike."""
    kinds = draw(st.lists(st.lists(_texts, min_size=1, max_size=2), min_size=1, max_size=10))
    theirs = draw(st.lists(_texts, max_size=3))
    crowd = [kind for kind in kinds for _ in range(draw(st.integers(1, 8)))]
    clients = {Conn(number): kind for number, kind in enumerate(crowd)}
    kept = [one for one in clients if draw(st.integers(0, 9)) == 0]
    rate = draw(st.floats(1.0, 20.0))
    events = draw(st.lists(_events, max_size=12))
    profile = profile_of(clients, theirs, events=events, kept=kept, input_rate=rate)
    count = sum(len(kind) for kind in crowd)
    share = profile.acceptor_bits.bit_count() / profile.samples if profile.samples else 0.0
    return snapshot_of(
        profile,
        draw(loads(rate=rate, subscriptions=count + draw(st.integers(0, 5)))),
        draw(loads(rate=rate * share, subscriptions=draw(st.integers(0, 30)))),
        theirs=theirs,
        is_overloaded=draw(st.booleans()),
    )

"""Small worlds to plan in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from tidewire.model.ids import BrokerId, Nanoseconds
from tidewire.placement.loads import LoadSnapshot, Subscriber

NOW = Nanoseconds(0)


def snapshot(
    rates: Mapping[str, float], wants: Mapping[str, str], brokers: Mapping[str, Sequence[str]]
) -> LoadSnapshot:
    """Rates by letter, what each subscriber wants as letters, and who is at which broker."""
    places = {letter: k for k, letter in enumerate(rates)}
    at = {name: j for j, names in enumerate(brokers.values()) for name in names}
    return LoadSnapshot(
        brokers=tuple(BrokerId(name) for name in brokers),
        rates=tuple(rates.values()),
        subscribers=tuple(
            Subscriber(name, at[name], tuple(places[letter] for letter in letters)) for name, letters in wants.items()
        ),
    )


def worked_example() -> LoadSnapshot:
    """bad §5 G1."""
    return snapshot(
        {"A": 10, "B": 20, "C": 5, "D": 40},
        {"u1": "AB", "u2": "AC", "u3": "BD", "u4": "C", "u5": "AD", "u6": "BC"},
        {"b1": ["u1", "u2", "u3", "u5"], "b2": ["u6"], "b3": ["u4"]},
    )


@st.composite
def snapshots(draw: st.DrawFn, *, subscribers_max: int = 14, brokers_max: int = 5) -> LoadSnapshot:
    """Any small world. Rates are whole numbers: sums of them are exact."""
    rates = draw(st.lists(st.integers(0, 50), min_size=1, max_size=8))
    brokers = draw(st.integers(1, brokers_max))
    wants = st.lists(st.integers(0, len(rates) - 1), unique=True, max_size=5)
    placed = draw(st.lists(st.tuples(st.integers(0, brokers - 1), wants), max_size=subscribers_max))
    return LoadSnapshot(
        brokers=tuple(BrokerId(f"b{j}") for j in range(brokers)),
        rates=tuple(float(rate) for rate in rates),
        subscribers=tuple(Subscriber(f"u{i}", j, tuple(wanted)) for i, (j, wanted) in enumerate(placed)),
    )

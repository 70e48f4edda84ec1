"""Buckets only find: whatever a filter accepts, it accepts with its bucket too."""

from hypothesis import given
from hypothesis import strategies as st

from tidewire.model.filters import Conjunction, Constraint
from tidewire.model.geography import Circle
from tidewire.model.values import Kind, Value
from tidewire.model.valuesets import ValueSet, at_least
from tidewire.spark.buckets import LEVELS_MAX, Buckets

numbers = st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False))
lats, lons = st.floats(-90, 90), st.floats(-360, 360)


def accepted(buckets: Buckets, narrowed: Conjunction, row: dict[str, Value]) -> bool:
    """With the buckets that a new row brings."""
    found = buckets.attributes({name: [value] for name, value in row.items()})
    return narrowed.accepts(row | {name: one for name, [one] in found.items() if one is not None})


@given(low=numbers, width=st.floats(0, 1e12), inside=st.floats(0, 1), other=numbers)
def test_a_range_is_found_by_its_bucket(low: float, width: float, inside: float, other: float) -> None:
    """At both ends, in between, and nowhere else."""
    allowed = at_least(Kind.NUMBER, low)
    high = float(low) + width
    conjunction = Conjunction((Constraint("x", ValueSet(Kind.NUMBER, ((allowed.intervals[0][0], high),))),))
    buckets = Buckets()
    narrowed = buckets.narrowed(conjunction)
    for value in (low, float(low) + width * inside, high, other):
        assert accepted(buckets, narrowed, {"x": value}) == conjunction.accepts({"x": value})


@given(lat=lats, lon=lons, radius=st.floats(1, 2e6), towards=st.tuples(lats, lons), share=st.floats(0, 1))
def test_a_circle_is_found_by_its_cells(
    lat: float, lon: float, radius: float, towards: tuple[float, float], share: float
) -> None:
    """Near the poles, across the date line and on other turns too."""
    circle = Circle("lat", "lon", True, lat, lon, radius)
    box = circle.box()
    constraints = (
        Constraint("lat", ValueSet(Kind.NUMBER, box[0])),
        Constraint("lon", ValueSet(Kind.NUMBER, box[1])),
    )
    conjunction = Conjunction(constraints, (circle,))
    buckets = Buckets()
    narrowed = buckets.narrowed(conjunction)
    reach = radius / 111_195
    north = max(-90.0, min(90.0, lat + share * reach))
    places = [(lat, lon), (north, lon), (lat, max(-360.0, lon - share * reach)), towards]
    places += [(lat, lon + turn) for turn in (-360.0, 360.0) if abs(lon + turn) <= 360]
    for one, other in places:
        row: dict[str, Value] = {"lat": one, "lon": other}
        assert accepted(buckets, narrowed, row) == conjunction.accepts(row)


def test_levels_have_a_bound() -> None:
    """Every level costs each new row something: ranges of still other widths are found without."""
    buckets = Buckets()
    made = [
        buckets.narrowed(Conjunction((Constraint("x", ValueSet(Kind.NUMBER, ((0.5, 0.5 + 4.0**n),))),)))
        for n in range(LEVELS_MAX + 4)
    ]
    assert sum(len(one.constraints) == 2 for one in made) == LEVELS_MAX
    assert len(buckets.attributes({"x": [1.0]})) == LEVELS_MAX

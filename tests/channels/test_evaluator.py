"""The evaluator: what a run tells each subscription, in every corner that the data cluster must agree with."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.channels.emergencies import SEVEN, emergencies
from tidewire.channels.declaration import declare
from tidewire.channels.evaluator import Evaluator, FedRow
from tidewire.channels.parameters import given_values
from tidewire.channels.queries import Declaration
from tidewire.channels.results import SubscriptionId
from tidewire.channels.schemas import Cell, Row
from tidewire.model.errors import UnsupportedType
from tidewire.model.ids import PubendId, Tick

CATALOG = emergencies()
HELSINKI = {"lat": 60.17, "lon": 24.94}
ESPOO = {"lat": 60.2, "lon": 24.66}


def channel(text: str) -> Declaration:
    """A channel without parameters over the reports."""
    return declare(text if text.startswith("create") else f"create channel c() period 1s as {text}", CATALOG)


def told(
    evaluator: Evaluator, declaration: Declaration, given: Mapping[str, object] | None = None
) -> list[tuple[Cell, ...]]:
    """What the next run tells one subscription."""
    values = given_values(declaration.name, declaration.parameters, given or {})
    results = evaluator.run(declaration, {SubscriptionId(1): values})
    return [row.cells for result in results for row in result.rows]


def answer(text: str, rows: list[Row], **others: list[Row]) -> list[tuple[Cell, ...]]:
    """What a query answers when these reports are new."""
    declaration = channel(text)
    evaluator = Evaluator(CATALOG)
    for name, standing in others.items():
        evaluator.append(name, standing)
    evaluator.begin(declaration)
    evaluator.append("EmergencyReports", rows)
    return told(evaluator, declaration)


def value(expression: str, row: Row | None = None) -> Cell:
    """What an expression is worth for one report."""
    ((found,),) = answer(f"select {expression} as it from EmergencyReports r", [row or {"id": 1}])
    return found


def test_a_run_looks_at_what_is_new() -> None:
    """bad §1.3: no record is matched twice by one channel, none is skipped; what was there before it began is old."""
    evaluator = Evaluator(CATALOG)
    declaration = channel(SEVEN[0])
    evaluator.append("EmergencyReports", [{"id": 1, "type": "fire"}])
    evaluator.begin(declaration)
    evaluator.append("EmergencyReports", [{"id": 2, "type": "fire"}, {"id": 3, "type": "flood"}])
    assert [cells[0] for cells in told(evaluator, declaration, {"type": "fire"})] == [2]
    evaluator.append("EmergencyReports", [{"id": 4, "type": "fire"}])
    assert [cells[0] for cells in told(evaluator, declaration, {"type": "fire"})] == [4]
    assert told(evaluator, declaration, {"type": "fire"}) == []


reports = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "type": st.sampled_from(("fire", "flood", None)),
        "lat": st.sampled_from((60.17, 60.2)),
        "lon": st.sampled_from((24.94, 24.66)),
    }
)


@given(runs=st.lists(st.lists(reports, max_size=5), max_size=4), which=st.sampled_from((0, 2, 4, 6)))
def test_the_union_of_all_runs_is_one_run_over_everything(runs: list[list[Row]], which: int) -> None:
    """bad §1.3: for a channel that looks at one new record at a time, it does not matter where runs are cut."""
    given = {"type": "fire", "lat": 60.17, "lon": 24.94, "km": 5, "me": "ann"}
    declaration = channel(SEVEN[which])
    mine = {column.name: given[column.name] for column in declaration.parameters}
    cut, whole = Evaluator(CATALOG), Evaluator(CATALOG)
    for evaluator in (cut, whole):
        evaluator.append("UserLocations", [{"user": "ann", **HELSINKI}])
        evaluator.append("Shelters", [{"name": "north", **HELSINKI}, {"name": "west", **ESPOO}])
        evaluator.begin(declaration)
    found: list[tuple[Cell, ...]] = []
    for rows in runs:
        cut.append("EmergencyReports", rows)
        whole.append("EmergencyReports", rows)
        found += told(cut, declaration, mine)
    assert found == told(whole, declaration, mine)


def test_a_keyed_dataset_has_one_row_for_each_key() -> None:
    """bad §1.3: the current place of a user is one row; the channel joins it as it stands when it runs."""
    evaluator = Evaluator(CATALOG)
    declaration = channel(SEVEN[3])
    evaluator.begin(declaration)
    evaluator.append("UserLocations", [{"user": "ann", **ESPOO}, {"user": "ann", **HELSINKI}, {"user": "bob", **ESPOO}])
    evaluator.append("EmergencyReports", [{"id": 1, **HELSINKI}])
    assert [cells[0] for cells in told(evaluator, declaration, {"me": "ann"})] == [1]
    evaluator.append("EmergencyReports", [{"id": 2, **HELSINKI}])
    assert told(evaluator, declaration, {"me": "bob"}) == []
    assert len(evaluator.tables["UserLocations"].log) == 3, "the log of changes stays readable"


def test_the_nearest_shelter() -> None:
    """bad §6.1: near me, with the nearest shelter; of two that are as near, the first by name."""
    evaluator = Evaluator(CATALOG)
    declaration = channel(SEVEN[5])
    evaluator.append("Shelters", [{"name": "west", **ESPOO}, {"name": "b", **HELSINKI}, {"name": "a", **HELSINKI}])
    evaluator.append("UserLocations", [{"user": "ann", **HELSINKI}])
    evaluator.begin(declaration)
    evaluator.append("EmergencyReports", [{"id": 1, "type": "fire", **HELSINKI}, {"id": 2, "type": "fire", **ESPOO}])
    assert told(evaluator, declaration, {"me": "ann"}) == [(1, "fire", "a")]


def test_a_left_join_tells_also_of_what_has_no_partner() -> None:
    """bad §6.1: in an area with its shelters; without any, the report alone."""
    rows: list[Row] = [{"id": 1, **HELSINKI}, {"id": 2, "lat": 0.0, "lon": 0.0}, {"id": 3}]
    shelters: list[Row] = [{"name": "a", **HELSINKI}, {"name": "b", **HELSINKI}, {"name": "c", **ESPOO}]
    text = (
        "select r.id, s.name from EmergencyReports r left join Shelters s on within(s.lat, s.lon, r.lat, r.lon, 5000)"
    )
    assert answer(text, rows, Shelters=shelters) == [(1, "a"), (1, "b"), (2, None), (3, None)]
    assert answer(f"{text} where s.name is null", rows, Shelters=shelters) == [(2, None), (3, None)]


def test_results_say_where_they_come_from() -> None:
    """A row comes from one event, a group from all of its events."""
    rows = [FedRow({"id": n, "type": "fire"}, (PubendId(5), Tick(n))) for n in (1, 2)]
    for text, origins in [
        ("select id from EmergencyReports", [((5, 1),), ((5, 2),)]),
        ("select count(*) as n from EmergencyReports", [((5, 1), (5, 2))]),
    ]:
        declaration = channel(text)
        evaluator = Evaluator(CATALOG)
        evaluator.begin(declaration)
        evaluator.append("EmergencyReports", rows)
        (result,) = evaluator.run(declaration, {SubscriptionId(1): ()})
        assert [row.origins for row in result.rows] == origins


def test_groups() -> None:
    """One result for each group; groups that are not there tell nothing."""
    rows: list[Row] = [
        {"id": 1, "type": "fire", "severity": 1.0},
        {"id": 2, "type": "fire", "severity": None},
        {"id": 3, "type": None, "severity": 0.25},
        {"id": None, "type": None, "severity": 0.5},
    ]
    text = (
        "select type, count(*) as n, count(id) as ids, sum(id) as total, avg(severity) as mean, min(id) as low,"
        " max(severity) as high, min_by(id, severity) as at_low, max_by(id, severity) as at_high"
        " from EmergencyReports group by type"
    )
    assert answer(text, rows) == [
        ("fire", 2, 2, 3, 1.0, 1, 1.0, 1, 1),
        (None, 2, 1, 3, 0.375, 3, 0.5, 3, None),
    ]
    assert answer(text, []) == answer("select count(*) as n from EmergencyReports", []) == []
    assert answer("select count(*) * 2 as n from EmergencyReports", rows) == [(8,)]
    assert answer("select type from EmergencyReports group by type having count(id) > 1", rows) == [("fire",)]
    assert answer("select sum(severity) as s from EmergencyReports", [{"id": 1}]) == [(None,)]


@pytest.mark.parametrize("values", [(1.5e308, 1.5e308), (math.inf, -math.inf), (math.inf, 1.0)])
def test_no_sum_fails(values: tuple[float, float]) -> None:
    """What a double cannot hold is null, as everywhere: no row can make a run fail."""
    rows: list[Row] = [{"id": number, "severity": value} for number, value in enumerate(values)]
    for name in ("sum", "avg"):
        assert answer(f"select {name}(severity) as s from EmergencyReports", rows) == [(None,)]
    assert answer("select sum(severity) as s from EmergencyReports", [{"severity": 0.1}] * 10) == [(1.0,)]


UNKNOWN: list[tuple[str, Cell]] = [
    ("id / 0", None),
    ("id / 2", 0.5),
    ("id + 9223372036854775807", None),
    ("- (id - 2)", 1),
    ("abs(-9223372036854775807 - id)", None),
    ("1e308 * 10 * id", None),
    ("severity + 1", None),
    ("coalesce(severity, 2.5)", 2.5),
    ("coalesce(severity, id)", 1.0),
    ("concat('a', type)", None),
    ("'a' || 'b'", "ab"),
    ("severity > 1", None),
    ("severity > 1 or id = 1", True),
    ("severity > 1 and id = 1", None),
    ("severity > 1 and id = 2", False),
    ("not (severity > 1)", None),
    ("id in (2, severity)", None),
    ("id in (1, severity)", True),
    ("id not in (2, 3)", True),
    ("severity is null", True),
    ("severity is not null", False),
    ("id between 1 and 2", True),
    ("id not between 1 and 2", False),
    ("type like 'a%'", None),
    ("'a%c' like 'a!%_' escape '!'", True),
    ("'abc' like 'a!%_' escape '!'", False),
    ("9007199254740993 = 9007199254740992.0", False),
    ("within(0, 0, 0, 1, 112000)", True),
    ("within(0, 0, 0, 1, 111000)", False),
    ("within(91, 0, 0, 1, 1)", None),
    ("within(0, 0, 0, 0, -1)", None),
    ("distance_m(0, 361, 0, 0)", None),
    ("timestamp '2020-01-01T00:00:00Z' < timestamp '2020-01-01T01:00:00+00:30'", True),
    ("x'ff' = x'FF'", True),
    ("true", True),
]


@pytest.mark.parametrize(("expression", "expected"), UNKNOWN)
def test_what_has_no_answer_is_null(expression: str, expected: Cell) -> None:
    """No row can make a run fail: division by zero, overflow, and what is missing are unknown."""
    found = value(expression)
    assert (type(found), found) == (type(expected), expected)


def test_distances() -> None:
    """On the sphere of the mean Earth radius, as ``within`` measures."""
    found = value("distance_m(60.17, 24.94, 60.2, 24.66)")
    assert isinstance(found, float)
    assert math.isclose(found, 15_829, rel_tol=1e-3)
    assert value("distance_m(0, 0, 0, 180)") == pytest.approx(math.pi * 6_371_008.8)


def test_rows_must_fit_their_dataset() -> None:
    """What is fed is checked; NaN is nothing."""
    table = Evaluator(CATALOG).tables["EmergencyReports"]
    with pytest.raises(UnsupportedType, match="EmergencyReports has no column 'ident'"):
        table.append({"ident": 1})
    with pytest.raises(UnsupportedType, match="id is a bigint: 'x' does not fit"):
        table.append({"id": "x"})
    table.append({"severity": math.nan})
    assert table.standing() == [dict.fromkeys(("id", "type", "severity", "lat", "lon", "zone"))]

"""What tasks of Spark answer is what the evaluator answers, for every plan of random queries."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.emergencies import emergencies
from tests.channels.test_plans import conditions, joins, reports, values, zones
from tests.spark.bench import KindBench, counted, fed_rows
from tidewire.channels.declaration import declare
from tidewire.channels.estimates import Workload
from tidewire.channels.evaluator import evaluate
from tidewire.channels.kinds import member_of_kind
from tidewire.channels.plans import all_plans
from tidewire.channels.schemas import Cell, Row
from tidewire.model.values import Value
from tidewire.spark.tasks import grouped_results, in_order
from tidewire.spark.worker import work

CATALOG = emergencies()
selections = st.sampled_from(
    (
        ("r.id, r.type, z.name, z.risk as risk, :x as x", ""),
        ("r.id / 2 as half, concat(r.type, z.name) as both, distance_m(r.lat, r.lon, z.risk, :x) as far", ""),
        ("r.type, count(*) as n, sum(z.risk) as total, avg(r.severity) as mean, :x as x", "group by r.type"),
        ("min_by(z.name, r.severity) as name, max(r.id) as id", ""),
        ("z.name, sum(r.id) as total", "group by z.name having count(*) > 1"),
    )
)


def query(join: str, where: str, selection: tuple[str, str]) -> str:
    """A channel of three parameters, all of which it uses."""
    used = f"{join} {where} {selection[0]}"
    asked = [f"not :{name} is null" for name in "xns" if f":{name}" not in used]
    return (
        "create channel c(x double, n bigint, s string) period 10s as"
        f" select {selection[0]} from EmergencyReports r {join}"
        f" where {' and '.join([where, *asked])} {selection[1]}"
    )


@settings(max_examples=2 * settings().max_examples)
@given(
    join=joins,
    where=conditions,
    selection=selections,
    new=st.lists(reports, max_size=4),
    standing=st.lists(zones, max_size=3),
    given_values=st.lists(values, min_size=1, max_size=3, unique=True),
)
def test_tasks_answer_as_the_evaluator_does(
    join: str,
    where: str,
    selection: tuple[str, str],
    new: list[Row],
    standing: list[Row],
    given_values: list[tuple[Value, ...]],
) -> None:
    """Whatever is asked, by whichever plan: joins, conditions, outputs and groups are exact."""
    declaration = declare(query(join, where, selection), CATALOG)
    member = member_of_kind(declaration)
    expected: dict[int, Counter[tuple[Cell, ...]]] = {}
    for number, one in enumerate(given_values):
        found = Counter(row.cells for row in evaluate(declaration.query, fed_rows(new), [standing], one))
        if found:
            expected[number] = found
    with TemporaryDirectory() as folder:
        for plan in all_plans(member.kind, CATALOG, Workload()):
            bench = KindBench(Path(folder), CATALOG, member, plan)
            for number, one in enumerate(given_values):
                bench.subscribe(number, member.row_values(one))
            job = bench.job(new, [standing])
            found_table = in_order(list(work(job, job.pieces)))
            if found_table is not None and plan.query.is_grouped:
                found_table = grouped_results(plan, found_table)
            assert counted(plan, found_table) == expected

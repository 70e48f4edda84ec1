"""Plans: which dataset is joined where, what the index takes, and that every plan gives the evaluator's answer."""

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channels.emergencies import SEVEN, emergencies
from tests.channels.planned import carried_out
from tidewire.channels.declaration import declare
from tidewire.channels.estimates import Workload
from tidewire.channels.evaluator import FedRow, evaluate
from tidewire.channels.explain import explain_plan
from tidewire.channels.kinds import member_of_kind
from tidewire.channels.plans import Plan, all_plans, choose_plan
from tidewire.channels.schemas import Row
from tidewire.channels.spelling import numbered, spell
from tidewire.model.errors import ChannelTooCostly, FilterTooCostly
from tidewire.model.values import Value

ROOT = Path(__file__).resolve().parents[2]
CATALOG = emergencies()


def plan_of(text: str) -> Plan:
    """The plan that is chosen."""
    return choose_plan(member_of_kind(declare(text, CATALOG)).kind, CATALOG)


def indexed(plan: Plan) -> list[str]:
    """What the index takes."""
    return [spell(node, numbered) for node in plan.indexed]


@pytest.mark.parametrize("text", SEVEN, ids=lambda text: text.split("(")[0].split()[-1])
def test_the_index_serves_the_seven_channels(text: str) -> None:
    """bad §6.1: of each of the seven, the index takes what ties a report to a subscription; nothing is left over."""
    plan = plan_of(text)
    assert plan.indexed
    assert plan.rest == ()


def test_the_place_of_the_user_is_joined_to_the_subscription() -> None:
    """bad §6.1: *near me* is a circle around each subscriber, so the index finds who is near."""
    plan = plan_of(SEVEN[3])
    assert [(join.source, join.method) for join in plan.subscription_joins] == [(1, "key")]
    assert indexed(plan) == ["within(t0.lat, t0.lon, t1.lat, t1.lon, :p2)"]
    assert plan.match_joins == ()


def test_what_is_looked_up_by_the_new_row_comes_to_the_index_with_it() -> None:
    """A column of a reference dataset can be matched as if the event had it."""
    plan = plan_of(
        "create channel risky(least double) period 10s as select r.id from EmergencyReports r"
        " join Zones z on z.name = r.zone where z.risk >= :least and r.severity * 2 > z.risk + :least"
    )
    assert [(join.source, join.method) for join in plan.new_joins] == [(1, "key")]
    assert indexed(plan) == ["t1.risk >= :p2"]
    assert [spell(node, numbered) for node in plan.rest] == ["(t0.severity * :p1) > (t1.risk + :p2)"]


def test_a_left_join_comes_after_the_match() -> None:
    """It adds to a match, and decides about none."""
    plan = plan_of(SEVEN[6])
    assert [(join.source, join.method, join.is_optional) for join in plan.match_joins] == [(1, "area", True)]


def test_a_query_that_would_never_finish_is_refused() -> None:
    """The error names the dataset, how many rows it has, and what to do."""
    text = (
        "create channel all_pairs(a double) period 10s on new EmergencyReports as select r.id from EmergencyReports r"
        " cross join UserLocations u where u.lat * 2 > :a"
    )
    with pytest.raises(ChannelTooCostly, match="100000 rows of UserLocations belong to a row: join it on a column"):
        plan_of(text)


def test_a_query_is_refused_for_what_it_costs_with_this_many_subscriptions() -> None:
    """What ten subscriptions may ask, a hundred million may not."""
    kind = member_of_kind(declare(SEVEN[0], CATALOG)).kind
    assert choose_plan(kind, CATALOG, Workload(subscriptions=10)).cost.total < 10_000
    with pytest.raises(ChannelTooCostly, match="compare a column of the feed with a parameter"):
        choose_plan(kind, CATALOG, Workload(subscriptions=10**9))


def test_a_plan_is_explained() -> None:
    """Each step a line, with the channel's own names and literals."""
    declaration = declare(SEVEN[4], CATALOG)
    member = member_of_kind(declaration)
    lines = explain_plan(declaration, member, choose_plan(member.kind, CATALOG)).splitlines()
    assert lines[0].startswith("channel of_type_near_me(me string, type string), every 20 s, of kind ")
    assert lines[1:7] == [
        "each new row of EmergencyReports",
        "each subscription",
        "  joined with UserLocations by its key on UserLocations.user = :me",
        "matched by the index (1,200 looked at)",
        "  by EmergencyReports.type = :type",
        "  by within(EmergencyReports.lat, EmergencyReports.lon, UserLocations.lat, UserLocations.lon, 2000.0)",
    ]
    assert lines[-1] == "200 results a run; 21,400 rows looked at in all"


def test_the_reference_shows_a_true_plan() -> None:
    """The channel of the document is of this kind, and is carried out as is written there."""
    document = (ROOT / "docs" / "reference" / "channels.md").read_text(encoding="utf-8")
    declared, explained = (document.split(f"```{fence}\n")[1].split("```")[0] for fence in ("sql", "text"))
    declaration = declare(declared, CATALOG)
    member = member_of_kind(declaration)
    assert explain_plan(declaration, member, choose_plan(member.kind, CATALOG)) == explained.strip()


# -- every plan gives the same answer ----------------------------------------------------------------------------------

NUMBERS = (None, -1.0, 0.0, 1.0, 2.5, 60.0, 1e300)
INTEGERS = (None, -1, 0, 1, 2, 2**53 + 1, 2**63 - 1)
WORDS = (None, "", "fire", "flood", "f%", "a_b")
numbers = st.sampled_from(
    ("r.severity", "r.id", "r.lat", "z.risk", ":x", ":n", "1", "2.5", "r.severity + :x", "z.risk * 2", "r.id / :n")
)
words = st.sampled_from(("r.type", "r.zone", "z.name", ":s", "'fire'", "concat(r.type, :s)"))
comparisons = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
leaves = st.one_of(
    st.builds("{} {} {}".format, numbers, comparisons, numbers),
    st.builds("{} {} {}".format, words, comparisons, words),
    st.builds("{} in ({}, {})".format, words, words, words),
    st.builds("{} between {} and {}".format, numbers, numbers, numbers),
    st.builds("{} like {}".format, words, st.sampled_from(("'f%'", "'%o%'", ":s", "'a\\\\_b'"))),
    st.builds("{} is null".format, st.sampled_from(("r.type", "z.risk", "r.severity", "z.calm"))),
    st.builds(
        "within(r.lat, r.lon, {}, {}, {})".format, numbers, numbers, st.sampled_from(("5e5", ":x * 1e6", "z.risk"))
    ),
    st.sampled_from(("z.calm", "true", "within(:x, :n, r.lat, r.lon, 2e5)")),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=4,
)
joins = st.one_of(
    st.just("cross join Zones z"),
    st.builds("join Zones z on {}".format, conditions),
    st.builds("left join Zones z on {}".format, conditions),
    st.just("join Zones z on z.name = r.zone"),
    st.just("join Zones z on z.name = :s"),
)
reports = st.fixed_dictionaries(
    {
        "id": st.sampled_from(INTEGERS),
        "type": st.sampled_from(WORDS),
        "severity": st.sampled_from(NUMBERS),
        "lat": st.sampled_from(NUMBERS),
        "lon": st.sampled_from(NUMBERS),
        "zone": st.sampled_from(WORDS),
    }
)
zones = st.fixed_dictionaries(
    {
        "name": st.sampled_from(WORDS),
        "risk": st.sampled_from(NUMBERS),
        "calm": st.sampled_from((None, True, False)),
    }
)
values = st.tuples(st.sampled_from(NUMBERS[1:]), st.sampled_from(INTEGERS[1:]), st.sampled_from(WORDS[1:]))


@settings(max_examples=2 * settings().max_examples)
@given(
    join=joins,
    where=conditions,
    new=st.lists(reports, max_size=4),
    standing=st.lists(zones, max_size=3),
    values=values,
)
def test_every_plan_gives_the_answer_of_the_evaluator(
    join: str, where: str, new: list[Row], standing: list[Row], values: tuple[Value, ...]
) -> None:
    """Whatever is asked where: the results are those of every row with every row."""
    used = f"{join} {where}"
    asked = [f":{name} is null" for name in "xns" if f":{name}" not in used]
    text = (
        "create channel c(x double, n bigint, s string) period 10s as"
        f" select r.id, r.type, z.name, z.risk as risk from EmergencyReports r {join}"
        f" where {' and '.join([where, *(f'not {one}' for one in asked)])}"
    )
    declaration = declare(text, CATALOG)
    member = member_of_kind(declaration)
    fed = [FedRow(row) for row in new]
    expected = Counter(row.cells for row in evaluate(declaration.query, fed, [standing], values))
    for plan in all_plans(member.kind, CATALOG, Workload()):
        try:
            assert carried_out(plan, fed, [standing], member.row_values(values)) == expected
        except FilterTooCostly:  # a bound of the language, which no query of this size may reach
            raise AssertionError(text) from None


CORNERS = (
    "join Zones z on true where r.type not in (z.name, :s)",
    "join Zones z on true where r.type in (z.name, :s)",
    "join Zones z on true where not r.type like z.name",
    "join Zones z on true where not within(r.lat, r.lon, z.risk, z.risk, 1e5)",
    "join Zones z on true where within(z.risk, z.risk, r.lat, r.lon, 1e5)",
    "join Zones z on true where not (z.calm and r.severity < z.risk)",
    "join Zones z on true where (z.calm or r.severity < z.risk) and not z.calm",
    "join Zones z on true join Shelters s on true where z.risk > s.lat and s.name <> r.type",
    "join Zones z on true left join Shelters s on s.lat < z.risk where r.type = :s or s.name is null",
    "left join Zones z on z.name = r.zone join Shelters s on s.name = z.name or z.calm is null",
)


@pytest.mark.parametrize("text", CORNERS)
def test_every_plan_in_every_corner(text: str) -> None:
    """Conditions between any two places, with nulls on both sides."""
    unused = "" if ":s" in text else f" {'and' if ' where ' in text else 'where'} :s is not null"
    declaration = declare(
        "create channel c(s string) period 10s as select r.id, z.name, z.risk as risk"
        f" from EmergencyReports r {text}{unused}",
        CATALOG,
    )
    member = member_of_kind(declaration)
    words, figures = ("fire", "f%", None), (1.0, 2.5, None)
    new = [
        FedRow({"id": n, "type": word, "zone": word, "severity": figure, "lat": figure, "lon": figure})
        for n, (word, figure) in enumerate(product(words, figures))
    ]
    standing: list[list[Row]] = [
        [
            {"name": word, "risk": figure, "calm": calm}
            for word, figure, calm in product(words, figures, (True, False, None))
        ],
        [{"name": word, "lat": figure, "lon": figure} for word, figure in product(words, figures)],
    ]
    others = standing[: len(declaration.query.sources) - 1]
    expected = Counter(row.cells for row in evaluate(declaration.query, new, others, ("fire",)))
    assert expected
    for plan in all_plans(member.kind, CATALOG, Workload()):
        assert carried_out(plan, new, others, member.row_values(("fire",))) == expected

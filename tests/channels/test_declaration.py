"""Declarations: what is read, and that each mistake is told where it stands, with what to do."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.channels.emergencies import SEVEN, emergencies
from tidewire.channels.creation import create_channel
from tidewire.channels.declaration import PARAMETERS_MAX, declare
from tidewire.channels.schemas import Catalog, Column, ColumnType, Dataset, cell_of
from tidewire.model.errors import (
    BadAttributeName,
    BadConfiguration,
    ChannelMeaningless,
    ChannelSyntaxError,
    ChannelTooCostly,
    ChannelUnsupported,
    TidewireError,
    UnknownName,
    UnsupportedType,
    UsageError,
)

CATALOG = emergencies()
SELECT = "select id from EmergencyReports r"


def test_a_declaration_is_read() -> None:
    """Name, parameters with their types, rhythm, the driving feed, outputs."""
    found = declare(
        """-- quakes near a place
        CREATE channel near_quakes(lat double, lon double, km float, magnitude int)
        on new EmergencyReports PERIOD 1.5 min as
        select r.id, r.severity * 2 as twice from EmergencyReports r
        where r.severity >= :magnitude and within(r.lat, r.lon, :lat, :lon, :km * 1000)""",
        CATALOG,
    )
    assert found.name == "near_quakes"
    assert [(one.name, one.type.value) for one in found.parameters] == [
        ("lat", "double"),
        ("lon", "double"),
        ("km", "double"),
        ("magnitude", "bigint"),
    ]
    assert (found.period_ms, found.feed) == (90_000, "EmergencyReports")
    assert [(one.name, one.type.value) for one in found.query.columns()] == [("id", "bigint"), ("twice", "double")]


@pytest.mark.parametrize(
    ("text", "period_ms"), [("period 10s", 10_000), ("period 2 h", 7_200_000), ("continuous", None)]
)
def test_a_channel_says_when_it_runs(text: str, period_ms: int | None) -> None:
    """Every period, or with each micro-batch."""
    assert declare(f"create channel c() {text} as {SELECT}", CATALOG).period_ms == period_ms


@pytest.mark.parametrize("text", SEVEN, ids=lambda text: text.split("(")[0].split()[-1])
def test_the_seven_channels_are_accepted(text: str) -> None:
    """bad §6.1: seven channels over three datasets, with periods of 10, 20 and 30 s."""
    found = create_channel(text, CATALOG)
    assert found.declaration.period_ms in (10_000, 20_000, 30_000)
    assert found.plan.indexed


def test_a_star_stands_for_all_columns() -> None:
    """Of all sources, or of one."""
    names = [
        one.name
        for one in declare(f"create channel c() period 1s as {SELECT[:6]} r.* {SELECT[9:]}", CATALOG).query.outputs
    ]
    assert names == ["id", "type", "severity", "lat", "lon", "zone"]


HEADERS: list[tuple[str, str]] = [
    ("", "the text ends here\n  \n  ^\nexpected create"),
    ("create table x", "'table' cannot stand here"),
    ("create channel 5() period 1s as", "expected the channel's name"),
    ("create channel c(a) period 1s as", "expected boolean, tinyint"),
    ("create channel c(a doble) period 1s as", "'doble' cannot stand here"),
    ("create channel c(a double, a double) period 1s as", "the parameter a is there twice"),
    ("create channel c(a double b double) period 1s as", "expected ,, )"),
    ("create channel c() as", "say when the channel runs: period 10s, or continuous"),
    ("create channel c() period as", "expected a period, like 10s"),
    ("create channel c() period 10 parsecs as", "expected ms, s, min, h"),
    ("create channel c() period 10ms as", "at least 1s and at most 24h"),
    ("create channel c() period 25h as", "at least 1s and at most 24h"),
    ("create channel c() period 1s continuous as", "said twice when the channel runs"),
    ("create channel c() on EmergencyReports period 1s as", "expected new"),
    (f"create channel {'c' * 129}() period 1s as", "a name has at most 128 characters"),
]


@pytest.mark.parametrize(("header", "message"), HEADERS)
def test_a_mistake_in_the_header_is_shown(header: str, message: str) -> None:
    """With its line, a caret, and what was expected."""
    with pytest.raises(ChannelSyntaxError) as caught:
        declare(f"{header} {SELECT}" if header else "", CATALOG)
    assert message in str(caught.value)
    assert str(caught.value).startswith("line 1, column ")


QUERIES: list[tuple[type[TidewireError], str, str]] = [
    (ChannelSyntaxError, "select id from EmergencyReports where", "this is not SQL"),
    (ChannelSyntaxError, "select id from EmergencyReports where (id > 3", "this is not SQL: Expecting )"),
    (ChannelSyntaxError, "select id from EmergencyReports where type = 'a", "cannot be read as SQL"),
    (UnknownName, "select id from Reports", "there is no dataset named 'Reports'; known: EmergencyReports"),
    (ChannelMeaningless, "select ident from EmergencyReports", "no column 'ident' in EmergencyReports"),
    (ChannelMeaningless, "select Type from EmergencyReports", "did you mean type?"),
    (ChannelMeaningless, "select x.id from EmergencyReports r", "no source is called 'x'; there are: r"),
    (ChannelMeaningless, "select x.* from EmergencyReports r", "no source is called 'x'"),
    (
        ChannelMeaningless,
        "select lat from EmergencyReports r join Shelters s on true",
        "may be r.lat or s.lat; say which",
    ),
    (ChannelMeaningless, "select id from EmergencyReports where id > :b", "no parameter :b"),
    (
        ChannelMeaningless,
        "select id from EmergencyReports where id > 'x'",
        "> takes two numbers, or two values of one type",
    ),
    (ChannelMeaningless, "select id from EmergencyReports where id", "a condition is true or false; this is a bigint"),
    (ChannelMeaningless, "select id from EmergencyReports where type like 5", "like takes two strings"),
    (ChannelMeaningless, "select id from EmergencyReports where type like 'a\\\\'", "the escape character"),
    (ChannelMeaningless, "select id from EmergencyReports where type = null", "nothing equals null; write: is null"),
    (ChannelMeaningless, "select id from EmergencyReports where type = 'it''s'", "two strings stand side by side"),
    (ChannelMeaningless, "select id from EmergencyReports where id > 1e999", "beyond the range of a double"),
    (ChannelMeaningless, "select id from EmergencyReports where id > 9223372036854775808", "beyond 64 bits"),
    (
        ChannelMeaningless,
        "select id from EmergencyReports where within(lat, lon, 1)",
        "within takes latitude, longitude",
    ),
    (ChannelMeaningless, "select id, id from EmergencyReports", "two results are called 'id'; rename one with as"),
    (ChannelMeaningless, "select id + 1 from EmergencyReports", "needs a name, with as"),
    (
        ChannelMeaningless,
        "select type, count(*) as n from EmergencyReports",
        "'type' is not the same in the whole group",
    ),
    (ChannelMeaningless, "select sum(count(*)) as n from EmergencyReports", "aggregates cannot be nested"),
    (ChannelMeaningless, "select id from EmergencyReports where count(*) > 1", "use having"),
    (ChannelMeaningless, "select max(id) as n from EmergencyReports group by 1", "group by takes columns"),
    (ChannelMeaningless, "select name from Shelters", "nothing new comes into Shelters"),
    (ChannelMeaningless, "select 1 as one", "say from which"),
    (ChannelMeaningless, "select r.id from EmergencyReports r join UserLocations u on true", "say which one drives it"),
    (ChannelMeaningless, "select id from EmergencyReports r join Shelters r on true", "two sources are called 'r'"),
    (ChannelMeaningless, "select x'f' as b from EmergencyReports", "half a byte"),
    (ChannelSyntaxError, "select map(1) as m from EmergencyReports", "some function here is not given what it takes"),
    (ChannelUnsupported, "select id from EmergencyReports order by id", "'order' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports limit 3", "'limit' is not possible"),
    (ChannelUnsupported, "select distinct id from EmergencyReports", "'distinct' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports; drop table x", "a channel is one select"),
    (ChannelUnsupported, "select id from EmergencyReports union select 1 as id", "a channel is one select"),
    (ChannelUnsupported, "with x as (select 1 as a) select a from x", "'with' is not possible"),
    (ChannelUnsupported, "select id from (select 1 as id) x", "by their names, not subqueries"),
    (ChannelUnsupported, "select id from EmergencyReports where id in (select 1)", "for a dataset use a join"),
    (ChannelUnsupported, "select id from EmergencyReports where exists (select 1)", "'exists' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports where type rlike 'a'", "'regexplike' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports where type like any ('a')", "'any' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports where id between symmetric 2 and 1", "'symmetric' is not"),
    (ChannelUnsupported, "select id from EmergencyReports where id is true", "after is stands null"),
    (ChannelUnsupported, "select upper(type) as t from EmergencyReports", "its functions are abs, avg, coalesce"),
    (ChannelUnsupported, "select cast(id as string) as t from EmergencyReports", "a cast is not possible"),
    (ChannelUnsupported, "select count(distinct id) as n from EmergencyReports", "'count' is not possible"),
    (ChannelUnsupported, "select max(id) filter (where true) as n from EmergencyReports", "'filter' is not possible"),
    (ChannelUnsupported, "select max(id) over () as n from EmergencyReports", "'over' is not possible"),
    (ChannelUnsupported, "select * except (id) from EmergencyReports", "'except' is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports r(a, b)", "'columns' is not possible"),
    (ChannelUnsupported, "select id from x.EmergencyReports", "'db' is not possible"),
    (
        ChannelUnsupported,
        "select r.id from EmergencyReports r right join Shelters s on true",
        "a right join is not possible",
    ),
    (ChannelUnsupported, "select id from EmergencyReports natural join Shelters", "a natural join is not possible"),
    (ChannelUnsupported, "select id from EmergencyReports join Shelters using (lat)", "with on"),
    (ChannelUnsupported, "select id from EmergencyReports group by rollup (id)", "'rollup' is not possible"),
    (ChannelTooCostly, f"select id from EmergencyReports where {'(' * 3000}true{')' * 3000}", "nested too deeply"),
    (ChannelTooCostly, f"select id from EmergencyReports where {'not ' * 3000}true", "nested too deeply"),
    (ChannelTooCostly, f"select id from EmergencyReports where {' or '.join(['id=1'] * 1000)}", "more than 2000 parts"),
    (ChannelTooCostly, f"select id from EmergencyReports where type = '{'x' * 17000}'", "at most 16384 are allowed"),
]


@pytest.mark.parametrize(("error", "query", "message"), QUERIES, ids=lambda value: str(value)[:60])
def test_a_mistake_in_the_query_is_shown(error: type[TidewireError], query: str, message: str) -> None:
    """What is not SQL, what cannot be right, what channels do not have, what would take too long."""
    with pytest.raises(error) as caught:
        declare(f"create channel c() period 1s as {query}", CATALOG)
    assert message in str(caught.value)


VOCABULARY = r"""
select from where and or not ( ) , . * + - / = < > <> id type severity r. r z.name EmergencyReports Zones join left on
true as group by having count(*) sum( min_by( within( coalesce( concat( || in like 'a%' escape between is null :x 1
2.5 'text' `id` x'ff' timestamp date case when then end interval cast( :: limit distinct union { } [ ] @ # $ ? ! ; --
/* */ \ ' ` -> lateral over with exists any array map( struct if( values pivot
"""


@given(
    st.lists(st.sampled_from(VOCABULARY.split()), max_size=14),
    st.sampled_from(("where", "join Zones z on", "group by", "")),
)
def test_no_text_breaks_the_reader(words: list[str], clause: str) -> None:
    """Whatever is written, it is a channel, or the writer is told what is wrong with it."""
    text = f"create channel c(x double) period 1s as {SELECT} {clause} {' '.join(words)}"
    with contextlib.suppress(UsageError):
        create_channel(text, CATALOG)


def test_an_error_points_to_the_place() -> None:
    """Line, column and caret are those of the whole text."""
    with pytest.raises(ChannelMeaningless) as caught:
        declare("create channel c() period 1s as\nselect id,\n  r.ident from EmergencyReports r", CATALOG)
    assert str(caught.value).splitlines()[0].startswith("line 3, column 3: there is no column 'ident'")
    assert str(caught.value).splitlines()[2] == "    ^"


def test_what_does_not_fit_together_is_refused() -> None:
    """Unused parameters, another feed than the first source, aggregates by chance, too many of something."""
    cases: list[tuple[type[TidewireError], str, str]] = [
        (ChannelMeaningless, f"create channel c(a double) period 1s as {SELECT}", "the parameter a is not used"),
        (ChannelMeaningless, f"create channel c(id bigint) period 1s as {SELECT} where r.idd = 1", "no column 'idd'"),
        (ChannelMeaningless, f"create channel c(x bigint) period 1s as {SELECT} where r.id = x", "is written :x"),
        (
            ChannelMeaningless,
            f"create channel c() period 1s on new UserLocations as {SELECT}",
            "reads EmergencyReports first",
        ),
        (UnknownName, f"create channel c() period 1s on new Nothing as {SELECT}", "no dataset named 'Nothing'"),
        (
            ChannelMeaningless,
            "create channel c() continuous as select count(*) as n from EmergencyReports",
            "aggregates need a period",
        ),
        (
            ChannelTooCostly,
            f"create channel c({', '.join(f'p{n} double' for n in range(PARAMETERS_MAX + 1))}) period 1s as {SELECT}",
            "at most 32 parameters",
        ),
        (
            ChannelTooCostly,
            "create channel c() period 1s as select a.id from EmergencyReports a"
            + "".join(f" join Zones z{n} on true" for n in range(4)),
            "joins at most 4 datasets",
        ),
    ]
    for error, text, message in cases:
        with pytest.raises(error, match=message):
            declare(text, CATALOG)


def test_a_dataset_must_be_right() -> None:
    """Bad names, keys and doubles are refused when a dataset is added."""
    one = Column("a", ColumnType.BIGINT)
    for dataset, message in [
        (Dataset(name="", columns=(one,)), "needs a name"),
        (Dataset(name="d", columns=()), "at least one column"),
        (Dataset(name="d", columns=(one,) * 257), "257 columns; at most 256"),
        (Dataset(name="d", columns=(one, Column("A", ColumnType.STRING))), "differ in case at most"),
        (Dataset(name="d", columns=(one,), key=("b",)), "its key 'b' is no column"),
        (Dataset(name="Zones", columns=(one,)), "one of this name already"),
    ]:
        with pytest.raises(BadConfiguration, match=message):
            emergencies().add(dataset)
    with pytest.raises(BadAttributeName):
        Catalog([Dataset(name="d", columns=(Column("", ColumnType.BIGINT),))])


@pytest.mark.parametrize(
    ("kind", "value"), [("bigint", True), ("bigint", 2**63), ("bigint", 1.5), ("boolean", 1), ("string", b"a")]
)
def test_a_value_must_fit_its_column(kind: str, value: object) -> None:
    """There are no silent conversions, but from whole numbers to doubles."""
    with pytest.raises(UnsupportedType, match="does not fit"):
        cell_of(Column("a", ColumnType(kind)), value)
    assert cell_of(Column("a", ColumnType.DOUBLE), 5) == 5.0
    assert cell_of(Column("a", ColumnType.DOUBLE), float("nan")) is None

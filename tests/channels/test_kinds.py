"""Kinds: what channels have in common, and the rows that their subscriptions are."""

import pytest

from tests.channels.emergencies import SEVEN, emergencies
from tidewire.channels.declaration import declare
from tidewire.channels.kinds import Member, member_of_kind

CATALOG = emergencies()


def member(text: str) -> Member:
    """The channel as one of its kind."""
    return member_of_kind(declare(f"create channel {text}", CATALOG))


SAME: list[tuple[str, str]] = [
    (
        """a(x double, y string) period 10s as select id as n from EmergencyReports q
        where 5 < severity and q.type = :y and severity <= :x""",
        """b(foo string) continuous as select r.id from EmergencyReports r
        where r.type = :foo and not (r.severity > 3.5) and r.severity > 4""",
    ),
    (
        "a() period 1s as select id from EmergencyReports where type = 'fire'",
        "b(t string) period 1s as select id from EmergencyReports where :t = type",
    ),
    (
        "a() period 1s as select id from EmergencyReports where severity between 1 and 2.5",
        "b(x double) period 1s as select id from EmergencyReports where severity >= :x and severity <= 7",
    ),
    (
        "a() period 1s as select id from EmergencyReports where not (type = 'a' or zone like 'b%')",
        "b() period 1s as select id from EmergencyReports where zone not like 'c%' and type <> 'd'",
    ),
    (
        "a() period 1s as select r.id from EmergencyReports r join Zones z on z.name = r.zone where z.risk > 1",
        "b() period 1s as select r.id from EmergencyReports r cross join Zones y where y.risk > 2 and r.zone = y.name",
    ),
    (
        "a() period 1s as select id / 10 as a, count(*) as n from EmergencyReports group by id / 10",
        "b(n bigint) period 1s as select id / :n as b, count(*) as m from EmergencyReports group by id / :n",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_names_literals_and_order_make_no_kind(one: str, other: str) -> None:
    """Channels that differ in them only share one plan."""
    assert member(one).kind == member(other).kind


def test_other_queries_are_of_other_kinds() -> None:
    """What is compared, how, with which type, and what is told."""
    texts = [
        "c() period 1s as select id from EmergencyReports where severity > 5",
        "c() period 1s as select id from EmergencyReports where severity >= 5",
        "c() period 1s as select id from EmergencyReports where id > 5",
        "c() period 1s as select id from EmergencyReports where id > 5.0",
        "c() period 1s as select type from EmergencyReports where severity > 5",
        "c() period 1s as select id from EmergencyReports where severity in (5, 6)",
        "c() period 1s as select id from EmergencyReports where severity in (5, 6, 7)",
        "c() period 1s as select id from EmergencyReports where type like 'a'",
        "c() period 1s as select id from EmergencyReports where type like 'a' escape '!'",
        "c() period 1s as select r.id from EmergencyReports r join Zones z on r.zone = z.name",
        "c() period 1s as select r.id from EmergencyReports r left join Zones z on r.zone = z.name",
        "c() period 1s as select id from EmergencyReports where not (severity > 5 and id > 5)",
        "c() period 1s as select id from EmergencyReports where not (severity > 5) and not (id > 5)",
        "c() period 1s as select id, count(*) as n from EmergencyReports where severity > 5 group by id",
    ]
    kinds = [member(text).kind for text in texts]
    assert len({kind.id for kind in kinds}) == len({kind.text for kind in kinds}) == len(texts)
    assert len({member_of_kind(declare(text, CATALOG)).kind.id for text in SEVEN}) == 7


def test_a_subscription_is_a_row_of_its_kind() -> None:
    """What the channel's literals are, and what the subscription gave, in the order of the kind."""
    found = member(
        "c(least double, type string) period 1s as select id from EmergencyReports"
        " where type = :type and severity between :least and 9 and zone <> :type"
    )
    assert found.kind.text == (
        "(p1 double, p2 double, p3 string) select t0.id as c1 from EmergencyReports t0"
        " where (t0.severity <= :p1) and (t0.severity >= :p2) and (t0.type = :p3) and (t0.zone <> :p3)"
    )
    assert found.row_values((2.5, "fire")) == (9.0, 2.5, "fire")


def test_a_kind_is_spelled_once() -> None:
    """The text of a kind is SQL that reads as the same kind: odd names and escapes are quoted."""
    found = member(
        r"c() period 1s as select `type` as `a b`, -id as n from EmergencyReports r left join Shelters s on"
        r" s.name = concat(type, 'it\'s') where not zone like 'a!%' escape '!' and (id = 1 or id is null)"
        r" and abs(id) + 1 < 5 and type in ('x', 'y')"
    )
    listed, query = found.kind.text.split(") ", 1)
    again = member(f"c{listed}) period 1s as {query}")
    assert again.kind.text == found.kind.text

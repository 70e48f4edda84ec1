"""Workload files in the manner of the PEER thesis (peer §9.4)."""

from random import Random

import pytest

from tidewire.language import compile_filter
from tidewire.model.errors import UsageError
from tidewire.simulator.checkers import check
from tidewire.simulator.costs import Peer, costs_by_name
from tidewire.simulator.play import play_workload
from tidewire.simulator.workloads import TEMPLATES, Quotes, Workload, clusters, template
from tidewire.simulator.world import World

SMALL = """
1.0  broker add B0 500 16 10
1.0  broker add B1 100 16 10      # the slow one
1.1  broker link B0 B1
5.0  publisher add P1 YHOO 60 B0
7.0  subscriber add S1 B1 class = 'STOCK' and symbol = 'YHOO'
7.0  subscriber add S2 B1 template zero
20.0 publisher chrate P1 600
"""


def test_a_small_file() -> None:
    """One message a second for 20 s, then ten."""
    world = World(0)
    Workload(SMALL, world)
    world.run(20)
    before = len(world.publications)
    world.run(10)
    assert before == 14
    assert len(world.publications) == before + 100
    assert len(world.clients["S1"].receipts) >= 12 + 98
    assert world.clients["S2"].receipts == []
    assert check(world) == []


@pytest.mark.parametrize(
    "line",
    [
        "1.0 broker add",
        "soon broker add B0 1 1 1",
        "nan broker add B0 1 1 1",
        "1.0 broker dance B0",
        "1.0 B0 add x",
        "1.0 broker add B0 1 1 1 1",
        "-1 broker add B0 1 1 1",
    ],
)
def test_a_line_that_is_none(line: str) -> None:
    """It is named, with an example of how it is done."""
    with pytest.raises(UsageError, match=r"line 2: .* broker add B0 500 16 10"):
        Workload(f"\n{line}\n", World(0))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 broker add B1 1 1 much", "line 3: MBPS is much"),
        ("1 broker add B0 1 1 1", "line 3: there is a broker B0 already"),
        ("1 publisher add P1 YHOO 10 B7", "line 3: no line adds a broker B7"),
        ("1 publisher chrate P1 10", "line 3: no line adds a publisher P1"),
        ("1 subscriber remove S1", "line 3: no line adds a subscriber S1"),
        ("1 subscriber add S1 B0 price >", "line 3: "),
        ("1 subscriber add S1 B0", "line 3: subscriber add has ID BROKER FILTER behind it"),
        ("1 broker link B0 B0 B0", "line 3: broker link has BROKER BROKER behind it"),
        ("1 broker link B0 B0", "line 3: a link from B0 to itself"),
        ("1 broker add B1 1 0 1", "line 3: MEMORY_MB is 0"),
        ("0.5 publisher add P1 YHOO 10 B0", "line 3: line 2 adds a broker B0 only later, at 1 s"),
        ("9 subscriber add S1 B0 price > 1\n4 subscriber remove S1", "line 4: line 3 adds a subscriber S1 only later"),
        ("9 publisher add P1 YHOO 60 B0\n4 publisher chrate P1 6", "line 4: line 3 adds a publisher P1 only later"),
        ("9 subscriber remove S1\n9 subscriber add S1 B0 price > 1", "line 3: line 4 adds a subscriber S1 only later"),
        ("3 subscriber add S1 B0 template", "line 3: no line adds a publisher whose stock"),
        ("3 subscriber add S1 B0 template\n4 publisher add P1 A 9 B0", "line 3: line 4 adds a publisher whose stock"),
        ("3 subscriber add S1 B0 template foo", "line 3: template foo: there is template, and template zero"),
        ("2 publisher add P1 YHOO 1e12 B0", "line 3: PER_MINUTE is 1e12: at most 6e+08"),
    ],
)
def test_a_line_that_cannot_be(line: str, says: str) -> None:
    """Nothing has happened then: the whole file is read first."""
    world = World(0)
    with pytest.raises(UsageError) as told:
        Workload(f"\n1 broker add B0 1 1 1\n{line}\n", world)
    assert says in str(told.value)
    world.run(5)
    assert world.brokers == {}


def test_what_came_of_a_file() -> None:
    """Who did how much, in the end."""
    seconds: list[float] = []
    played = play_workload(SMALL, seconds=30, on_second=seconds.append)
    assert (played.events, played.received["S2"], played.violations) == (114, 0, [])
    assert played.deliveries == played.received["S1"] >= 110
    first, second = played.brokers
    assert (first.broker, first.forwards) == ("B0", second.events)
    assert 113 <= first.events <= 114  # the last one is on its way
    assert second.deliveries == played.deliveries
    assert 0 < first.cpu_busy < second.cpu_busy < 1
    assert 0 < (second.output_busy or 0) < 1
    assert seconds == [float(n) for n in range(1, 31)]


def test_templates_have_their_shares() -> None:
    """Table 5.1; and a zero-traffic subscriber wants a stock that nobody publishes."""
    chance = Random("templates")
    texts = [template(chance, "0", ["A", "B"]) for _ in range(2000)]
    for share, has_symbol, bounded, _ in TEMPLATES:
        like = [text for text in texts if ("symbol" in text) == has_symbol]
        like = [text for text in like if (bounded is None and text.count("and") == has_symbol) or f"{bounded} " in text]
        assert len(like) / len(texts) == pytest.approx(share, abs=0.03)
    quotes = [Quotes("A", "0").next() for _ in range(50)]
    zero = [compile_filter(template(chance, "0", ["A"], is_zero=True)) for _ in range(100)]
    assert not any(wanted.accepts(quote) for wanted in zero for quote in quotes)


def test_the_peers_costs() -> None:
    """The matching delay of n subscriptions is n / (60 · CPU) seconds (peer §9.3)."""
    from tidewire.dataplane.protocol import Work

    cost_ns = Peer(mhz=100).of(Work(events=1), Work(events=3, subscriptions=120), messages=9, writes=9)
    assert cost_ns == 2 * 120 / (60 * 100) * 1e9
    assert costs_by_name("free").of(Work(), Work(events=9), messages=9, writes=9) == 0


def test_clusters_settle() -> None:
    """Heads in a random graph with edges around them: all is delivered."""
    world = World(0)
    text = "\n".join(clusters(Random("clusters"), brokers=20, extra_links=2, publishers=4, subscribers=20))
    Workload(text, world)
    world.run(20)
    assert world.unsettled() == []
    assert check(world) == []
    assert sum(len(client.receipts) for client in world.clients.values()) > 0

"""Balancers together: two clusters, in good and in bad networks (peer §4 to §6)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.balancing.network import Network, Trouble
from tests.balancing.parts import CONFIG
from tidewire.model.ids import BrokerId

X, Y = BrokerId("X"), BrokerId("Y")
CLUSTERS = {"X": {"X1": 60, "X2": 2, "X3": 0}, "Y": {"Y1": 0, "Y2": 1}}

TROUBLE = st.builds(
    Trouble,
    loss=st.sampled_from([0.0, 0.05, 0.3]),
    delay_s=st.sampled_from([0.0, 0.5, 15.0]),
    deaths=st.lists(
        st.tuples(st.floats(1, 800), st.integers(0, 6), st.sampled_from([1.0, 40.0, 300.0])), max_size=5
    ).map(tuple),
    stubborn=st.sampled_from([0.0, 0.1, 1.0]),
    unplanned=st.sampled_from([0.0, 0.2, 1.0]),
)


def test_one_cluster_becomes_even() -> None:
    """peer §5.1, V4: all that comes in at one edge is spread over the three, and then there is rest."""
    network = Network({"X": {"X1": 40, "X2": 0, "X3": 0}}, CONFIG, Trouble(), seed=1)
    network.run(1500)
    counts = network.counts()
    assert max(counts.values()) - min(counts.values()) <= 5  # the threshold of 0.1
    ended = len(network.said("session ended"))
    network.run(3000)
    assert len(network.said("session ended")) == ended
    assert set(network.conditions().values()) == {"OK"}


def test_two_clusters_become_even() -> None:
    """peer §6.3: an overloaded edge is helped by the other cluster, and both heads end their session."""
    network = Network(CLUSTERS, CONFIG, Trouble(), seed=1)
    network.run(4000)
    assert network.said("clusters balance")
    assert len(network.said("clusters balance")) == len(network.said("clusters no longer balance"))
    counts = network.counts()
    means = [sum(counts[BrokerId(edge)] for edge in CLUSTERS[head]) / len(CLUSTERS[head]) for head in CLUSTERS]
    assert abs(means[0] - means[1]) <= 8  # the threshold of 0.15
    assert set(network.conditions().values()) == {"OK"}


@settings(max_examples=max(1, settings().max_examples // 4))
@given(trouble=TROUBLE, seed=st.integers(0, 2**32))
def test_no_trouble_keeps_anybody_in_a_session(trouble: Trouble, seed: int) -> None:
    """peer S2, M6, M8: whatever is lost, late or dead, all leave BUSY in time, and no one is in two sessions.

    The network checks at every step that a session and BUSY are one, that clients go only to one who has accepted, and
    that no session outlives its lease.
    """
    network = Network(CLUSTERS, CONFIG, trouble, seed=seed)
    network.run(1000)
    network.calm()
    network.run(1000 + network.busy_bound_s + 600)
    assert set(network.conditions().values()) == {"OK"}


@settings(max_examples=max(1, settings().max_examples // 8))
@given(seed=st.integers(0, 2**32))
def test_both_sides_of_every_session_end(seed: int) -> None:
    """peer §6.2: without trouble what one side counts as begun and ended, the other does too.

    Six hops of 1.5 s are the way to an edge of the other cluster and back: within ``reply_s``.
    """
    network = Network(CLUSTERS, replace(CONFIG, local_pie_s=20.0), Trouble(delay_s=1.5), seed=seed)
    network.run(4500)
    begun, taken = network.said("session began"), network.said("takes over")
    ended = network.said("session ended")
    assert len(begun) == len(taken) > 0
    gave = sorted(note.facts["moved"] for note in ended if "acceptor" in note.facts)
    took = sorted(note.facts["moved"] for note in ended if "donor" in note.facts)
    assert gave == took
    assert len(gave) == len(begun)

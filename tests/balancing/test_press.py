"""PRESS: vectors, and the rates that follow from them (peer §7.1)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.balancing.market import (
    EVENTS,
    OURS,
    OVER_15,
    OVER_150,
    SPORTS,
    STOCK,
    THEIRS,
    linear,
    profile_of,
    snapshot_of,
    snapshots,
)
from tidewire.balancing.bundles import Bundle, Pool
from tidewire.balancing.clientele import Clientele
from tidewire.balancing.outlook import Outlook
from tidewire.balancing.plans import OffloadSnapshot
from tidewire.balancing.press import Candidate, Press, Profile
from tidewire.balancing.tally import Tally
from tidewire.model.ids import Conn, Nanoseconds


def vectors(profile: Profile) -> dict[Conn, str]:
    return {one.clients[0]: profile.vector(one.bits) for one in profile.candidates}


def test_the_first_event_is_the_rightmost_bit() -> None:
    """peer G3."""
    profile = profile_of(OURS, THEIRS)
    assert vectors(profile) == {STOCK: "110111", OVER_15: "110100", OVER_150: "100000", SPORTS: "001000"}
    alone = {text: profile_of({}, [text]) for text in THEIRS}
    assert [alone[text].vector(alone[text].acceptor_bits) for text in THEIRS] == ["110000", "000001", "000000"]
    assert profile.vector(profile.acceptor_bits) == "110001"


def test_rates() -> None:
    """peer G4, Eq. 4.1, 4.4 to 4.6, with 3 events per second."""
    profile = profile_of(OURS, THEIRS)
    bits = {one.clients[0]: one.bits for one in profile.candidates}
    assert {who: profile.rate(one.bit_count()) for who, one in bits.items()} == pytest.approx(
        {STOCK: 2.5, OVER_15: 1.5, OVER_150: 0.5, SPORTS: 0.5}
    )
    extra = {who: one & ~profile.acceptor_bits for who, one in bits.items()}
    assert {who: profile.vector(one) for who, one in extra.items()} == {
        STOCK: "000110",
        OVER_15: "000100",
        OVER_150: "000000",
        SPORTS: "001000",
    }
    assert profile.rate(extra[STOCK].bit_count()) == pytest.approx(1.0)
    then = profile.acceptor_bits | bits[STOCK]
    assert profile.vector(then) == "110111"
    assert [profile.rate((bits[who] & ~then).bit_count()) for who in (OVER_15, OVER_150, SPORTS)] == [0, 0, 0.5]


def bundles_of(snapshot: OffloadSnapshot) -> list[Bundle]:
    return Pool(snapshot.profile.candidates).bundles(Outlook(snapshot))


def test_what_the_donor_would_get_no_more(market: OffloadSnapshot) -> None:
    """peer G5: STOCK 000011, so 1.0 per second; SPORTS 0.5; what is covered nothing."""
    found = {bundle.groups[0].bits: market.profile.rate(bundle.reducible) for bundle in bundles_of(market)}
    assert found == pytest.approx({0b110111: 1.0, 0b001000: 0.5, 0b110100: 0.0, 0b100000: 0.0})


@pytest.fixture
def market() -> OffloadSnapshot:
    return snapshot_of(
        profile_of(OURS, THEIRS), linear(3, 4, slope_s=0.05), linear(1.5, 3, slope_s=0.05), theirs=THEIRS
    )


def test_without_samples_all_rates_are_nothing() -> None:
    """peer §7.1 step 3."""
    assert profile_of(OURS, THEIRS, events=[]).rate(0) == 0.0


def test_it_ends_with_enough_samples_or_when_time_is_up() -> None:
    """peer §7.1 step 3: what comes later is no sample, and N is what was seen."""
    press = Press(samples_max=2, until_ns=Nanoseconds(100))
    assert not press.is_complete(now_ns=Nanoseconds(99))
    assert press.is_complete(now_ns=Nanoseconds(100))
    for _ in range(3):
        press.take([Conn(1)], acceptor=False)
    assert press.is_complete(now_ns=Nanoseconds(0))
    profile = press.profile(Clientele({Conn(1): (b"x",)}), input_rate=1.0, event_bytes=1.0)
    assert (profile.samples, profile.candidates[0].bits) == (2, 0b11)


def test_a_client_with_several_subscriptions_is_one_candidate() -> None:
    """Its vector is their union, and it counts as many times as it has subscriptions."""
    both = ["class = 'SPORTS'", "class = 'STOCK' and volume > 150"]
    profile = profile_of({Conn(1): both, Conn(2): both, Conn(3): both[:1]}, [])
    pair, single = profile.candidates
    assert (pair.clients, pair.each, profile.vector(pair.bits)) == ((1, 2), 2, "101000")
    assert (single.clients, single.each, profile.vector(single.bits)) == ((3,), 1, "001000")


def test_those_who_stay_are_no_candidates_and_hold_the_input_up() -> None:
    """peer L7, M7."""
    profile = profile_of(OURS, THEIRS, kept=[SPORTS])
    assert SPORTS not in vectors(profile)
    assert profile.vector(profile.kept_bits) == "001000"
    assert len(profile.kept_filters) == 1


def test_those_who_leave_are_no_candidates_and_take_their_share_with_them() -> None:
    """peer M7: what only they want comes no more, and what they get goes out elsewhere."""
    profile = profile_of(OURS, THEIRS, leaving=[STOCK, OVER_150])
    assert list(vectors(profile)) == [OVER_15, SPORTS]
    assert profile.kept_bits == 0
    assert profile.leaving.input_rate == pytest.approx(-1.0)
    assert profile.leaving.subscriptions == -2
    assert profile.leaving.output_bytes_s == pytest.approx(-(2.5 + 0.5) * 200)


@given(st.lists(st.lists(st.integers(0, 255), max_size=40), max_size=4), st.data())
def test_the_tally_counts(lots: list[list[int]], data: st.DataObject) -> None:
    """Against a counter for each bit."""
    tally, plain = Tally(), Counter[int]()
    for vectors in lots:
        tally.add(vectors)
        plain.update(place for bits in vectors for place in range(8) if bits >> place & 1)
    for vectors in lots:
        gone = vectors[: data.draw(st.integers(0, len(vectors)))]
        tally.remove(gone)
        plain.subtract(place for bits in gone for place in range(8) if bits >> place & 1)

    def mask(holds: object) -> int:
        assert callable(holds)
        return sum(1 << place for place, count in plain.items() if count and holds(count))

    assert tally.some == mask(lambda count: True)
    for count in range(12):
        assert tally.exactly(count) == mask(lambda found, count=count: found == count)
        assert tally.at_most(count) == mask(lambda found, count=count: found <= count)
    assert tally.same_as(tally) == tally.some
    assert tally.same_as(Tally()) == 0


@given(snapshots())
def test_bundles_say_what_happens_when_their_clients_move(snapshot: OffloadSnapshot) -> None:
    """Extra and reducible input of any part of a bundle, against sets of samples (peer §7.1)."""
    everybody = snapshot.profile.candidates
    pool = Pool(everybody)
    for bundle in pool.bundles(Outlook(snapshot)):
        members = [one for group in bundle.groups for one in group.members]
        assert {(one.bits.bit_count(), one.each) for one in members} == {(bundle.wanted, bundle.each)}
        assert bundle.clients == sum(len(one.clients) for one in members)
        assert _gone(snapshot.profile, members) == bundle.reducible
        assert all(_new(snapshot.profile, [one]) == bundle.extra for one in members)
        assert _new(snapshot.profile, members) == bundle.extra
        for some in range(1, len(members)):
            assert _gone(snapshot.profile, members[:some]) == 0


def _samples(candidates: list[Candidate]) -> set[int]:
    return {place for one in candidates for place in range(len(EVENTS) * 4) if one.bits >> place & 1}


def _gone(profile: Profile, going: list[Candidate]) -> int:
    """Samples that nobody wants any more."""
    staying = [one for one in profile.candidates if one not in going]
    kept = {place for place in range(len(EVENTS) * 4) if profile.kept_bits >> place & 1}
    return len(_samples(going) - _samples(staying) - kept)


def _new(profile: Profile, going: list[Candidate]) -> int:
    """Samples that the acceptor has not had."""
    return len({place for place in _samples(going) if not profile.acceptor_bits >> place & 1})


@st.composite
def crowds(draw: st.DrawFn) -> OffloadSnapshot:
    """Few samples, of which the acceptor has most, and candidates that share them: much is alike."""
    vectors = draw(st.lists(st.integers(0, 15), min_size=1, max_size=10))
    candidates = tuple(
        Candidate((b"%d" % number,) * draw(st.integers(1, 2)), _crowd(number, draw(st.integers(1, 3))), bits)
        for number, bits in enumerate(vectors)
    )
    profile = Profile(
        samples=4,
        input_rate=4.0,
        event_bytes=1.0,
        acceptor_bits=draw(st.sampled_from([15, 15, 15, 14, 10, 0])),
        candidates=candidates,
        kept_bits=draw(st.sampled_from([0, 0, 1, 6])),
    )
    return snapshot_of(profile, linear(4, 40, slope_s=0.001), linear(4, 40, slope_s=0.001))


def _crowd(number: int, clients: int) -> tuple[Conn, ...]:
    return tuple(Conn(10 * number + client) for client in range(clients))


@given(crowds(), st.data())
def test_bundles_hold_while_picks_change_everything(snapshot: OffloadSnapshot, data: st.DataObject) -> None:
    """After any picks, any part of a bundle does to the rates what the bundle says (peer O5)."""
    outlook = Outlook(snapshot)
    pool = Pool(snapshot.profile.candidates)
    staying = dict.fromkeys(snapshot.profile.candidates)
    gained = snapshot.profile.acceptor_bits
    while bundles := pool.bundles(outlook):
        for bundle in bundles:
            members = [one for group in bundle.groups for one in group.members]
            left = msgspec.structs.replace(snapshot.profile, candidates=tuple(staying), acceptor_bits=gained)
            assert bundle.clients == sum(len(one.clients) for one in members)
            assert [_gone(left, members[:some]) for some in range(1, len(members))] == [0] * (len(members) - 1)
            assert _gone(left, members) == bundle.reducible
            assert {_new(left, [one]) for one in members} == {_new(left, members)} == {bundle.extra}
        bundle = data.draw(st.sampled_from(bundles))
        taken = pool.take(bundle, data.draw(st.integers(1, bundle.clients)))
        outlook.move(taken)
        for one in taken:
            gained |= one.candidate.bits
            if one.is_whole:
                del staying[one.candidate]

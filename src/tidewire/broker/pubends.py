"""The streams that this broker hosts: how fast they may go, when they are silent, and for whom they are held."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from math import inf
from typing import Final, Literal

import msgspec

from tidewire.broker.config import BrokerConfig
from tidewire.broker.effects import Effect, Note
from tidewire.broker.stream_events import Keep, LimitPubend, LogLoss, LogSeen, Paced, ReleaseTicks, TellSilence
from tidewire.congestion.policies import Rate, rate_policy
from tidewire.dataplane.streams import StreamState
from tidewire.delivery import holds, offers
from tidewire.delivery.holds import Claimed, Ends, Holds, MayHave
from tidewire.delivery.offers import Offers
from tidewire.model.congestion import Alert, Query
from tidewire.model.ids import BrokerId, Nanoseconds, PubendId, Tick
from tidewire.model.stream_messages import HeldFor, Holding
from tidewire.model.ticks import ms_of, tick_at

RELEASE_NS: Final = 1_000_000_000
IDLE_NS: Final = 2_000_000_000
"""A pubend that nothing is published in for so long asks nobody how it comes along."""
SILENCE_NS: Final = 100_000_000
RELEASE_PARTS: Final = 8
ROOM_NS: Final = 10_000_000
"""How often those who wait for a pubend to take more are looked at."""
SAYERS_MAX: Final = 100
"""So many who say that they have had more than the log are told apart."""
_SECOND_NS: Final = 1_000_000_000
_STANDSTILL: Final = {
    "full": "the broker's disk is full: events are taken again when there is room",
    "failed": "the broker's disk has failed: it must be started again",
}
"""Troubles of a log that last, and what publishers are told."""


def pubend_of(broker: BrokerId, number: int) -> PubendId:
    """The id of a broker's pubend: the same in every life."""
    return PubendId(int.from_bytes(blake2b(f"{broker}#{number}".encode(), digest_size=8).digest(), "little"))


def begun_key(pubend: PubendId) -> bytes:
    """In the log: where the stream begins in it."""
    return b"begun/" + pubend.to_bytes(8, "little")


class _Pubend:
    """One of them."""

    def __init__(self, policy: Rate, state: StreamState, *, now_ns: Nanoseconds) -> None:
        self.policy = policy
        self.state = state
        self.limit: float | None = None
        """As the data plane knows it."""
        self.told_ns = now_ns
        """When something was last heard of it, an event or silence."""
        self.events = state.events
        self.measured_ns = now_ns
        self.is_used = state.events > 0
        """Has anything ever been published there?"""
        self.event_ns = now_ns - IDLE_NS
        """When something last was."""
        self.alerts = self.alerts_recovering = 0
        """That have come: of edges that do not recover, and of those that do."""

    def is_idle(self, now_ns: Nanoseconds) -> bool:
        """Has nothing been published for a while?"""
        return now_ns - self.event_ns >= IDLE_NS and not self.state.is_awaited

    def silence_ns(self, now_ns: Nanoseconds) -> int:
        """How often silence is told. While events flow, who is not sent them must hear that they are not for it."""
        config = self.policy
        return int(config.silence_s * 1e9) if self.is_idle(now_ns) else SILENCE_NS


class Pubends:
    """All of this broker. Methods return effects."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._pubends: dict[PubendId, _Pubend] = {}
        self.holds = Holds()
        self.offers = Offers()
        self._keeps = 0
        self._unix_offset_ns = 0
        self._log = LogSeen("none", "", 0, [])
        self._begun: dict[PubendId, Tick] = {}
        self._younger: dict[tuple[PubendId, str], LogLoss] = {}
        """What followers have had, and the log never had: it is not the one that they know. By how that is known."""
        self._sayers: dict[PubendId, dict[str, None]] = {}
        """The names of those who only say so."""
        self._release_ns = self._served_ns = Nanoseconds(0)

    def __contains__(self, pubend: PubendId) -> bool:
        return pubend in self._pubends

    def __len__(self) -> int:
        return len(self._pubends)

    def begin(
        self,
        states: list[StreamState],
        kept: list[tuple[bytes, bytes]],
        *,
        unix_offset_ns: int,
        now_ns: Nanoseconds,
    ) -> None:
        """The log is open: this is in it."""
        self._unix_offset_ns = unix_offset_ns
        self.holds = Holds((key, value) for key, value in kept if key.startswith((holds.KEY, holds.ENDED_KEY)))
        self.offers = Offers(dict(kept).get(offers.KEY))
        begun = dict(kept)
        for state in states:
            self._begun[state.pubend] = Tick(int.from_bytes(begun.get(begun_key(state.pubend), b""), "little"))
        make = rate_policy(self._config.congestion)
        for state in states:
            policy = make(state.pubend, self._config.congestion, offered_msgs_s=0.0, now_ns=now_ns)
            self._pubends[state.pubend] = _Pubend(policy, state, now_ns=now_ns)

    def _beyond_bytes(self, pubend: PubendId, one: _Pubend) -> Tick:
        """Up to where must go, if the log is too large: a part of the time that it has, again until it is enough."""
        first = dict(self._log.firsts).get(pubend, Tick(0))
        if self._log.disk_bytes <= self._config.retain_bytes or not first:
            return Tick(0)
        first = max(first, one.state.released)
        beyond = first + max(1, (one.state.heard - first) // RELEASE_PARTS)
        return Tick(min(beyond, one.state.heard))  # what is durable and not told yet has not been owed to anybody

    def heads(self) -> dict[PubendId, Tick]:
        """The first tick of each that is not yet told."""
        return {pubend: one.state.heard for pubend, one in self._pubends.items()}

    @property
    def log(self) -> LogSeen:
        """How the log was when it was last looked at."""
        return self._log

    def states(self) -> list[tuple[StreamState, float | None, tuple[int, int]]]:
        """All of them; how many events a second each may take, None: as many as come; and the alerts that have come.

        First those of edges that do not recover, then of those that do. One in which nothing is published is held back
        by nothing, whatever it was limited to last.
        """
        return [
            (one.state, None if one.is_idle(self._served_ns) else one.limit, (one.alerts, one.alerts_recovering))
            for one in self._pubends.values()
        ]

    def pace_of(self, publisher: int) -> tuple[PubendId, float | None, str] | None:
        """Where the guaranteed events of this publisher go, how fast they may, and why; None: nowhere."""
        if not self._pubends:
            return None
        pubend = list(self._pubends)[publisher % len(self._pubends)]
        return pubend, *self._pace(self._pubends[pubend])

    def _pace(self, one: _Pubend) -> tuple[float | None, str]:
        if self._log.trouble in _STANDSTILL:
            return 0.0, _STANDSTILL[self._log.trouble]
        return one.limit, "" if one.limit is None else "a subscriber on the way of this stream cannot take more"

    # -- how fast ------------------------------------------------------------------------------------------------------

    def seen(self, state: StreamState, *, now_ns: Nanoseconds) -> None:
        """How one of them stands."""
        one = self._pubends[state.pubend]
        if state.events != one.state.events:
            one.is_used, one.event_ns = True, now_ns
        one.state = state
        elapsed_ns = now_ns - one.measured_ns
        if elapsed_ns >= _SECOND_NS:
            rate = (state.events - one.events) * 1e9 / elapsed_ns
            one.events, one.measured_ns = state.events, now_ns
            is_held_back = state.is_awaited and one.limit is not None
            one.policy.offer(inf if is_held_back else rate, now_ns=now_ns)  # nobody knows what they would send

    def alerted(self, alert: Alert, *, now_ns: Nanoseconds) -> list[Effect]:
        """Somebody does not keep up with one of them."""
        one = self._pubends.get(alert.pubend)
        if one is None:
            return []
        one.alerts += alert.slowest < inf
        one.alerts_recovering += alert.slowest_recovering < inf
        if not one.policy.hear(alert, latest=Tick(one.state.heard - 1), now_ns=now_ns):
            return []
        facts: dict[str, str | int | float] = {
            "pubend": f"{alert.pubend:016x}",
            "events/s": round(one.policy.rate_msgs_s, 1),
            "slowest": alert.slowest if alert.slowest < inf else "-",
            "slowest recovering": alert.slowest_recovering if alert.slowest_recovering < inf else "-",
        }
        return [Note("pubend slowed", facts), *self._limited(alert.pubend, one)]

    def _limited(self, pubend: PubendId, one: _Pubend) -> list[Effect]:
        limit = one.policy.limit_msgs_s
        wanted = None if limit == inf else limit
        if wanted == one.limit:
            return []
        one.limit = wanted
        return [LimitPubend(pubend, wanted), Paced(pubend, *self._pace(one))]

    def log_seen(self, seen: LogSeen) -> list[Effect]:
        """How the log stands: when it stops taking events, and when it takes them again, people and publishers hear."""
        before, self._log = self._log.trouble, seen
        was, is_now = before in _STANDSTILL, seen.trouble in _STANDSTILL
        if before == seen.trouble or not (was or is_now):
            return []
        paces = [Paced(pubend, *self._pace(one)) for pubend, one in self._pubends.items()]
        if not is_now:
            return [Note("log goes on", {"was": before}), *paces]
        is_full = seen.trouble == "full"
        note = Note("log full", {"why": seen.why}) if is_full else Note("log failed", {"why": seen.why})
        return [note, *paces]

    def due(self, *, now_ns: Nanoseconds) -> Iterator[Query | Effect]:
        """Queries to be sent, limits that have grown, silence to be told, ticks to be released."""
        self._served_ns = now_ns
        for pubend, one in self._pubends.items():
            if not one.is_used:
                continue
            if not one.is_idle(now_ns):
                query = one.policy.due(latest=Tick(one.state.heard - 1), now_ns=now_ns)
                yield from self._limited(pubend, one)
                if query is not None:
                    yield query
            if now_ns - one.told_ns >= one.silence_ns(now_ns):
                one.told_ns = now_ns
                yield TellSilence(pubend)
            if one.limit is not None and one.state.is_awaited:
                yield LimitPubend(pubend, one.limit)  # time has passed: there may be room for those who wait
        if now_ns >= self._release_ns:
            self._release_ns = Nanoseconds(now_ns + RELEASE_NS)
            yield from self._releases(now_ns)

    def deadline_ns(self) -> Nanoseconds | None:
        """When something is due next."""
        times: list[int] = [self._release_ns] if self._pubends else []
        for one in self._pubends.values():
            if one.is_used:
                is_idle = one.is_idle(self._served_ns)
                deadline_ns = None if is_idle else one.policy.next_deadline()
                times += [] if deadline_ns is None else [deadline_ns]
                times.append(one.told_ns + one.silence_ns(self._served_ns))
                times += [self._served_ns + ROOM_NS] if one.limit is not None and one.state.is_awaited else []
        return Nanoseconds(min(times)) if times else None

    # -- for whom ------------------------------------------------------------------------------------------------------

    def offered(self, filters: list[bytes]) -> tuple[list[bytes], list[Effect]]:
        """Somebody will publish this here: what of it is new?"""
        new = self.offers.add(filters) if self._pubends else []
        if not new:
            return [], []
        self._keeps += 1
        return new, [Keep(self._keeps, [(offers.KEY, self.offers.kept())])]

    def ends(self) -> Ends:
        """Of each: where its log begins, the first tick that is kept, and the first that is not told yet."""
        begun = self._begun
        return {
            pubend: (begun.get(pubend, Tick(0)), one.state.released, one.state.heard)
            for pubend, one in self._pubends.items()
        }

    def claim(
        self, holdings: list[Holding], *, now_ms: int, may_have: MayHave
    ) -> tuple[int | None, list[Claimed], list[Effect]]:
        """Names come, or end. Those who ask are told when it is durable: by this number.

        None: at once, for nothing becomes durable now, nor is anything published. A name that is new is not taken.
        """
        ends, known = self.ends(), dict.fromkeys(self.holds.names())
        is_standing = self._log.trouble in _STANDSTILL
        claimed = [
            Claimed(HeldFor("full"))
            if is_standing and one.kind != "end" and one.name not in known
            else self.holds.claim(one, ends, now_ms=now_ms, may_have=may_have)
            for one in holdings
        ]
        self._keeps += 1
        met = zip(holdings, claimed, strict=True)
        notes = [note for holding, one in met for note in self._met(holding, one, now_ms)]
        return None if is_standing else self._keeps, claimed, [*notes, Keep(self._keeps, self.holds.changed())]

    def _met(self, holding: Holding, claimed: Claimed, now_ms: int) -> Iterator[Effect]:
        """Has a follower had what the log does not have? Then the log is not the one that it was.

        A broker that has brought it to the end of the stream knows. A client may say anything: that it is ahead of the
        stream is told as its word; a place before the log begins is a gap for it, and says nothing of the log.
        """
        answer, joined = claimed.answer, dict.fromkeys(holding.joined)
        lacking = [(pubend, first, dict(answer.places)[pubend]) for pubend, first in answer.lost]
        seen = [(pubend, place, self._begun.get(pubend, Tick(0))) for pubend, place in holding.places]
        lacking += [(pubend, place, begun) for pubend, place, begun in seen if place < begun and pubend in joined]
        for pubend, first, end in lacking:
            if not first or not end:
                continue
            why: Literal["younger", "said"] = "younger" if pubend in joined else "said"
            sayers = self._sayers.setdefault(pubend, {})
            if why == "said" and len(sayers) < SAYERS_MAX:
                sayers[holding.name] = None
            met = LogLoss(pubend, min(first, Tick(end - 1)), Tick(end - 1), now_ms * 1_000_000, why)
            known = self._younger.setdefault((pubend, why), met)
            names = len(sayers) if why == "said" else 0
            self._younger[pubend, why] = msgspec.structs.replace(
                known, first=min(known.first, met.first), last=max(known.last, met.last), names=names
            )
            if known is met:
                facts: dict[str, str | int | float] = {"pubend": f"{pubend:016x}", "name": holding.name}
                if why == "said":
                    yield Note("follower ahead of the log", facts)
                else:
                    yield Note("log younger than a follower", facts)

    @property
    def losses(self) -> list[LogLoss]:
        """What is known to be lost."""
        return [*self._log.losses, *self._younger.values()]

    def progress(self, names: list[str], claims: list[int], pubend: PubendId, places: list[Tick]) -> list[int]:
        """All before these ticks is settled with these followers; which of them are no longer theirs?"""
        told = zip(names, claims, places, strict=True)
        return [i for i, (name, claim, place) in enumerate(told) if not self.holds.progress(name, claim, pubend, place)]

    def keep(self) -> list[Effect]:
        """How far those are that events are held for is to be durable, if it has changed."""
        changed = self.holds.changed()
        if not changed:
            return []
        self._keeps += 1
        return [Keep(self._keeps, changed)]

    def _releases(self, now_ns: Nanoseconds) -> Iterator[Effect]:
        """What nobody is owed is kept for as long as the configuration says; what somebody is owed, if it says so."""
        yield from self.keep()
        for pubend, one in self._pubends.items():
            # By the clock: a stream that stands still because the disk is full must not keep it full.
            latest_ms = max(ms_of(one.state.heard), (now_ns + self._unix_offset_ns) // 1_000_000)
            old = min(one.state.heard, tick_at(max(0, latest_ms - int(self._config.retain_s * 1000))))
            old = max(old, self._beyond_bytes(pubend, one))
            least = self.holds.least(pubend) if self._config.release == "acknowledged" else None
            tick = old if least is None else min(old, least)
            first = dict(self._log.firsts).get(pubend, Tick(0))
            if first and max(first, one.state.released) < tick:  # silence takes no room, and need not be told as a gap
                yield ReleaseTicks(pubend, Tick(tick))

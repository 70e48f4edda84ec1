"""The fluid engine: an engine that also takes flows (``flows.py``), n equal events at once. Only for the simulator.

Given a flow it ends in the state of the reference engine that is given its events one by one, and what it emits stands
for the same frames; given ordinary frames it emits the very same bytes. What a flow costs does not depend on its number
of events: it is matched once, counted by arithmetic, and queued as a run.

Who wants an event is remembered by its content for as long as nothing is installed. What has flows in it comes and goes
as ``Bulk``, which knows its size in virtual bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tidewire.dataplane.deadlines import due_of
from tidewire.dataplane.events import checked, decoded, numbers_ahead, on_our_clock, sequence_at, stamped
from tidewire.dataplane.flows import FLOW, Repeat, decode_repeat, later, size_of
from tidewire.dataplane.fluid_state import Run, RunQueue
from tidewire.dataplane.installed import Installed
from tidewire.dataplane.protocol import REFUSED_LISTED_MAX, Received, Refusal, TrafficClass
from tidewire.dataplane.state import Connection, Routes
from tidewire.matching.index import KernelMatcher
from tidewire.model.errors import DamagedEvent, DamagedFrame, TidewireError
from tidewire.model.events import Event
from tidewire.model.ids import Conn, Nanoseconds, TreeId
from tidewire.wire.frames import BORN, DELIVER, FORWARD, FRAME_BYTES_MAX, HEAD, HOP, MESSAGE, PUBLISH, frame

REMEMBERED_MAX: Final = 4096


class _Plan(msgspec.Struct, frozen=True):
    """What is done with events of one content."""

    problem: TidewireError | None = None
    """Why it is refused, or that it is damaged."""

    tree: TreeId = TreeId(0)
    given: bytes = b""
    """Of what is published: with what its traffic class gives it."""

    ttl_ns: int | None = None
    local: list[tuple[Conn, bytes]] = []
    """Subscribers, and what stands ahead of the event for each."""

    routed: list[Conn] = []


class _Under(msgspec.Struct):
    """A flow that is being taken: what is said of the next frame, and how many of its events are done."""

    repeat: Repeat
    taken: int = 0

    @property
    def left(self) -> Repeat:
        """What is not done."""
        return Repeat(self.repeat.count - self.taken, self.repeat.every_ns)


class _Broken(Exception):
    """What came is not the protocol."""


class FluidEngine(Installed[RunQueue]):
    """An engine (``protocol.py``) for experiments with tens of millions of events."""

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(
            frame_bytes_max=frame_bytes_max, make_queue=RunQueue, make_routes=lambda: Routes(KernelMatcher())
        )
        self._refusals: dict[str, Refusal] = {}
        self._ready: dict[Conn, None] = {}
        self._had_something: dict[Conn, None] = {}
        """Before the call, though it may all be late by now."""
        self._under: dict[Conn, _Under] = {}
        self._blocked: dict[Conn, None] = {}
        self._plans: dict[tuple[Conn | None, bytes], _Plan] = {}
        """Of what a client publishes, by its connection; of what a neighbour forwards, by nothing but its content."""

    # -- what a machine installs: nothing that was known of an event holds any more ------------------------------------

    def close(self, conn: Conn) -> None:
        """It ends."""
        super().close(conn)
        self._under.pop(conn, None)
        self._blocked.pop(conn, None)
        self._plans.clear()

    def may_publish(self, conn: Conn, *, publisher: int, next_sequence: int) -> None:
        """From now on PUBLISH is taken from this client."""
        super().may_publish(conn, publisher=publisher, next_sequence=next_sequence)
        self._plans.clear()

    def permit(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher's identity may publish."""
        super().permit(conn, filters)
        self._plans.clear()

    def allow(self, conn: Conn, filters: Sequence[bytes] | None) -> None:
        """What this publisher advertised."""
        super().allow(conn, filters)
        self._plans.clear()

    def set_classes(self, classes: Sequence[TrafficClass]) -> None:
        """What events that are published from now on get."""
        super().set_classes(classes)
        self._plans.clear()

    def own_tree(self, tree: TreeId) -> None:
        """The tree of events that are published here."""
        super().own_tree(tree)
        self._plans.clear()

    def forget_tree(self, tree: TreeId) -> None:
        """The tree is gone."""
        super().forget_tree(tree)
        self._plans.clear()

    def add_routes(self, conn: Conn, numbers: Sequence[int], filters: Sequence[bytes], tree: TreeId | None) -> None:
        """Send there what matches."""
        super().add_routes(conn, numbers, filters, tree)
        self._plans.clear()

    def remove_routes(self, conn: Conn, numbers: Sequence[int], tree: TreeId | None) -> None:
        """No longer."""
        super().remove_routes(conn, numbers, tree)
        self._plans.clear()

    # -- frames --------------------------------------------------------------------------------------------------------

    def receive(self, conn: Conn, data: bytes, *, now_ns: Nanoseconds) -> Received:
        """Bytes have come."""
        source = self._at(conn)
        source.counts.bytes_in += size_of(data)
        source.input += data
        return self._go_on(conn, now_ns)

    def resume(self, conn: Conn, *, now_ns: Nanoseconds) -> Received:
        """Go on with what has come before."""
        source = self._at(conn)
        if source.state == "blocked":
            source.state = "busy"
            self._blocked.pop(conn, None)
        return self._go_on(conn, now_ns)

    def _go_on(self, conn: Conn, now_ns: Nanoseconds) -> Received:
        source = self._at(conn)
        self._now_ns = now_ns
        self._refusals, self._ready, self._had_something = {}, {}, {}
        message = None
        try:
            while source.state not in {"broken", "blocked"} and message is None:
                found = self._first_frame(source)
                source.state = "idle" if found is None else "busy"
                if found is None:
                    break
                message = self._take(conn, *found, now_ns)
        except _Broken as problem:
            source.state, source.reason = "broken", str(problem)
        if source.state == "blocked":
            self._blocked[conn] = None
        overrun, self._overrun = self._overrun, []
        refusals = list(self._refusals.values())
        return Received(source.state, message, source.reason, refusals, list(self._ready), overrun)

    def _first_frame(self, source: Connection[RunQueue]) -> tuple[int, bytes] | None:
        if len(source.input) < 4:
            return None
        length = int.from_bytes(source.input[:4], "little")
        bytes_max = max(self._frame_bytes_max, FRAME_BYTES_MAX if source.is_link else 0)
        if not 0 < length <= bytes_max:
            raise _Broken(f"a frame's length is 0 or beyond {bytes_max}")
        if len(source.input) < 4 + length:
            return None
        return source.input[4], bytes(source.input[5 : 4 + length])

    def _take(self, conn: Conn, kind: int, payload: bytes, now_ns: Nanoseconds) -> bytes | None:
        """One frame, or as much as finds room of the flow that it stands for. The message, if it is one."""
        source = self._connections[conn]
        if kind == FLOW and conn not in self._under:
            try:
                self._under[conn] = _Under(decode_repeat(payload))
            except DamagedFrame as problem:
                raise _Broken(problem.message) from None
        elif kind == MESSAGE and conn not in self._under:
            del source.input[: 5 + len(payload)]
            return payload
        else:
            under = self._under.get(conn) or _Under(Repeat(1, 0))
            taken = self._handle(conn, kind, payload, under, now_ns)
            source.counts.events_in += taken
            under.taken += taken
            if under.taken < under.repeat.count:
                source.state = "blocked"
                if under.repeat.count > 1:
                    self._under[conn] = under
                return None
            self._under.pop(conn, None)
        del source.input[: 5 + len(payload)]
        return None

    def _handle(self, conn: Conn, kind: int, payload: bytes, under: _Under, now_ns: Nanoseconds) -> int:
        """How many of the events that are left were taken?"""
        source = self._connections[conn]
        if kind == PUBLISH and not source.is_link and source.publisher is not None and len(payload) >= BORN.size:
            return self._publish(conn, payload, under, now_ns)
        if kind == FORWARD and source.is_link and len(payload) >= HOP.size:
            return self._forward(conn, payload, under, now_ns)
        raise _Broken("a frame that this side may not send, or that ends too early")

    # -- events --------------------------------------------------------------------------------------------------------

    def _publish(self, conn: Conn, payload: bytes, under: _Under, now_ns: Nanoseconds) -> int:
        source = self._connections[conn]
        assert self._own is not None
        assert source.publisher is not None
        event = payload[BORN.size :]
        plan = self._plans.get((conn, event)) or self._remember((conn, event), self._plan_published(event, source))
        if plan.problem is not None:
            return self._refuse(source, plan.problem, under.left.count)
        born_ns = BORN.unpack_from(payload)[0] + under.taken * under.repeat.every_ns
        born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=0, now_ns=now_ns)
        hop = HOP.pack(born_ns, error_us, self._trees[self._own].last + 1)
        encoded = stamped(plan.given, source.publisher, source.next_sequence, self._own)
        taken = self._distribute(conn, plan, hop, encoded, _on_our_clock(source, under.left))
        source.next_sequence += taken
        return taken

    def _plan_published(self, event: bytes, source: Connection[RunQueue]) -> _Plan:
        try:
            found, given = checked(event, source, frame_bytes_max=self._frame_bytes_max, classes=self._classes)
        except TidewireError as problem:
            return _Plan(problem=problem)
        assert self._own is not None
        return self._plan(found, self._own, given=given)

    def _refuse(self, source: Connection[RunQueue], problem: TidewireError, count: int) -> int:
        self._refused += count
        found = self._refusals.get(problem.code) or Refusal([], 0, problem.code, problem.message)
        listed = min(count, REFUSED_LISTED_MAX - len(found.sequences))
        found.sequences.extend(range(source.next_sequence, source.next_sequence + listed))
        self._refusals[problem.code] = msgspec.structs.replace(found, further=found.further + count - listed)
        source.next_sequence += count
        return count

    def _forward(self, conn: Conn, payload: bytes, under: _Under, now_ns: Nanoseconds) -> int:
        source, count = self._connections[conn], under.left.count
        event = payload[HOP.size :]
        at = sequence_at(event)
        key = None, event if at is None else event[:at] + event[at + 8 :]
        plan = self._plans.get(key) or self._remember(key, self._plan_forwarded(event))
        if plan.problem is not None:
            source.counts.damaged += count
            return count
        tree = self._trees.get(plan.tree)
        position = HOP.unpack_from(payload)[2] + under.taken
        stray = count if tree is None or tree.parent != conn else min(count, max(0, tree.floor - position + 1))
        source.counts.stray += stray
        left = Repeat(count - stray, under.repeat.every_ns)
        if not left.count:
            return stray
        first = later(frame(FORWARD, payload), under.taken + stray, left.every_ns)
        born_ns, error_us, position = HOP.unpack_from(first, HEAD.size)
        born_ns, error_us = on_our_clock(source.clock, born_ns=born_ns, error_us=error_us, now_ns=now_ns)
        hop = HOP.pack(born_ns, error_us, position)
        return stray + self._distribute(conn, plan, hop, first[HEAD.size + HOP.size :], _on_our_clock(source, left))

    def _plan_forwarded(self, event: bytes) -> _Plan:
        try:
            found = decoded(event)
        except TidewireError as problem:
            return _Plan(problem=problem)
        if found.envelope.tree is None:
            return _Plan(problem=DamagedEvent("it has no tree"))
        return self._plan(found, TreeId(found.envelope.tree))

    def _plan(self, event: Event, tree: TreeId, *, given: bytes = b"") -> _Plan:
        routed = self._trees[tree].routes.match(event) if tree in self._trees else []
        return _Plan(
            tree=tree,
            given=given,
            ttl_ns=event.envelope.ttl_ns if event.envelope.tick is None else None,
            local=[(Conn(one.destination), numbers_ahead(one)) for one in self._clients.match(event)],
            routed=[Conn(one.destination) for one in routed],
        )

    def _remember(self, key: tuple[Conn | None, bytes], plan: _Plan) -> _Plan:
        if len(self._plans) >= REMEMBERED_MAX:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _distribute(self, conn: Conn, plan: _Plan, hop: bytes, encoded: bytes, repeat: Repeat) -> int:
        """Into every queue at once, as many as find room wherever they have to wait for it; how many?"""
        frames = {ahead: frame(DELIVER, hop + ahead + encoded) for ahead in dict.fromkeys(one for _, one in plan.local)}
        firsts = [(to, frames[ahead]) for to, ahead in plan.local]
        forwarded = frame(FORWARD, hop + encoded)
        firsts += [(to, forwarded) for to in plan.routed if to != conn]
        if late := self._late(plan, forwarded, repeat):
            self._took(plan, hop, encoded, late, matches=len(firsts))
            for to, _ in firsts:
                self._connections[to].out.expired += late
            rest = later(forwarded, late, repeat.every_ns)[HEAD.size :]
            left = Repeat(repeat.count - late, repeat.every_ns)
            return late + (self._distribute(conn, plan, rest[: HOP.size], rest[HOP.size :], left) if left.count else 0)
        count = repeat.count
        for to, first in firsts:
            there = self._connections[to]
            if there.when_full == "wait" and there.takes_events and there.takes(len(first)):
                count = min(count, self._room(to, len(first), count))
        if count:
            self._took(plan, hop, encoded, count, matches=len(firsts))
        for i, (to, first) in enumerate(firsts if count else ()):
            queued = self._put(to, first, Repeat(count, repeat.every_ns))
            if i < len(plan.local):
                self._deliveries += queued
            else:
                self._forwards += queued
        if count < repeat.count:
            self._connections[conn].blocked_by = self._in_the_way(firsts)
        return count

    def _took(self, plan: _Plan, hop: bytes, encoded: bytes, count: int, *, matches: int) -> None:
        tree = self._trees[plan.tree]
        tree.last = max(tree.last, HOP.unpack(hop)[2] + count - 1)
        self._events += count
        self._matches += count * matches
        self._keep_samples(encoded, count=count)

    def _late(self, plan: _Plan, first: bytes, repeat: Repeat) -> int:
        """How many of them, the first ones, are past their deadline as they come?"""
        if plan.ttl_ns is None:
            return 0
        return Run(first, repeat.count, repeat.every_ns, due_of(first)).until(self._now_ns)

    def _room(self, conn: Conn, size: int, count: int) -> int:
        """For how many, once what is past its deadline has gone, if they do not all fit?"""
        out = self._connections[conn].out
        if out.room(size) < count:
            self._had_something |= {} if out.is_empty else {conn: None}
            out.expire(self._now_ns)
        return out.room(size)

    def _in_the_way(self, firsts: list[tuple[Conn, bytes]]) -> tuple[Conn, int]:
        """The first connection that the next event has to wait for."""
        for to, first in firsts:
            there = self._connections[to]
            takes_it = there.takes_events and there.takes(len(first))
            if there.when_full == "wait" and takes_it and not there.out.fits(len(first)):
                return to, len(first)
        raise AssertionError("no event waits for nothing")

    # -- queues --------------------------------------------------------------------------------------------------------

    def _put(self, conn: Conn, first: bytes, repeat: Repeat) -> int:
        to = self._connections[conn]
        if not to.takes_events or not to.takes(len(first)):
            to.counts.dropped += repeat.count
            return 0
        self._room(conn, len(first), repeat.count)
        if to.out.is_empty and conn not in self._had_something:
            self._ready[conn] = None
        if to.when_full == "drop":
            put, dropped = to.out.put_dropping(first, repeat)
        else:
            put = min(repeat.count, to.out.room(len(first)))
            dropped = repeat.count - put
            if put:
                to.out.put_events(first, Repeat(put, repeat.every_ns))
            if dropped:
                self._end(conn)
        to.counts.dropped += dropped
        to.counts.events_out += put
        to.counts.bytes_out += put * len(first)
        return put

    def unblocked(self) -> list[Conn]:
        """The connections that were blocked and need no longer be."""
        found = [conn for conn in self._blocked if self._has_room(self._connections[conn])]
        for conn in found:
            del self._blocked[conn]
            self._connections[conn].state = "busy"
        return found


def _on_our_clock(source: Connection[RunQueue], repeat: Repeat) -> Repeat:
    """Where the clock is not known, all are born when they come."""
    return Repeat(repeat.count, 0) if source.clock is None else repeat

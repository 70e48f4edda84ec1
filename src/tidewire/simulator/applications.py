"""The application of a simulated client: what it wants, does and is promised. It remembers all it did and got."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

import msgspec

from tidewire._kernel.codec import encode
from tidewire.client.config import ClientConfig
from tidewire.client.core import ClientCore
from tidewire.client.events import (
    AdvertiseThat,
    ClientEvent,
    FollowAs,
    Guarantee,
    SubscribeTo,
    Tell,
    UnadvertiseThat,
    UnfollowFor,
    UnsubscribeFrom,
    Wanted,
)
from tidewire.client.order import Order
from tidewire.dataplane.flows import Repeat
from tidewire.language import compile_filter
from tidewire.model.errors import Overloaded, TidewireError
from tidewire.model.events import Event, make_event
from tidewire.model.filters import encode_filter
from tidewire.model.ids import Conn, PubendId, Tick
from tidewire.model.messages import ANYTHING
from tidewire.model.traffic import Terms
from tidewire.model.values import Value
from tidewire.simulator.agenda import Agenda, in_ns
from tidewire.simulator.hosts import Host, LocalClock
from tidewire.simulator.network import Network
from tidewire.simulator.promises import Followed, FollowerRecord, Promised
from tidewire.simulator.records import FOREVER_NS, GUARANTEED, EventKey, Publications, Receipt, Span, key_of

WAITING_MAX: Final = 100_000
FOLLOW_AGAIN_S: Final = 1.0
ONE: Final = Repeat(1, 0)


class Application(Host):
    """One application with one session, whose connections are ``ClientHost``'s."""

    def __init__(
        self,
        agenda: Agenda,
        network: Network,
        config: ClientConfig,
        *,
        publications: Publications,
        clock: LocalClock,
        seed: str,
    ) -> None:
        """``publications`` is shared by all clients of a world."""
        super().__init__(agenda, network, config.name, clock)
        self._config = config
        self._seed = seed
        self.life = 1
        self.is_down = False
        self.core = ClientCore(config, chance=Random(f"{seed}/{config.name}"))
        self.receipts: list[Receipt] = []
        self.repeats: list[tuple[int, EventKey]] = []
        """What came again or late and was kept from the application: when, and which event."""
        self.refused: list[EventKey] = []
        """Events that a broker did not take, or may not have taken."""
        self.told: list[tuple[int, Tell]] = []
        self.spans: list[Span] = []
        self.failures: list[tuple[int, TidewireError]] = []
        self.on_advertised: Callable[[], object] = lambda: None
        self.has_flows = False
        """May equal events be told at once?"""
        self.given_up = 0
        """Guaranteed events that no broker could be reached for."""
        self.changed_ns = 0
        """When it last asked for something, was answered, or was served elsewhere."""
        self.has_advertised = False
        self.held_back = 0
        """Events that were not made because of a limit."""
        self.suppressed = 0
        """And because nobody wanted them, as far as its broker knew."""
        self.judge: Callable[[Mapping[str, Value]], float | None] | None = None
        """What an event is worth to it, if its broker asks."""
        self.promised: dict[EventKey, Promised] = {}
        self.followed: dict[str, FollowerRecord] = {}
        self._publications = publications
        self._publish_on: Conn | None = None
        self._tokens = 0
        self._wanted: dict[int, Span] = {}
        self._advertised: dict[int, str | None] = {}
        self._following: dict[int, FollowerRecord] = {}
        self.names_ended: list[FollowerRecord] = []
        """Names that are over, as they were."""
        self._begin_life()

    def _begin_life(self) -> None:
        """What a process has when it begins."""
        self._order = Order()
        self._publish_on = None
        self._sequence = self._guaranteed = 0
        self._finished: dict[int, Callable[[], object]] = {}
        self._follows: dict[int, int] = {}
        """The numbers that are to be followed, by the tokens of the requests."""
        self._waiting: list[tuple[Mapping[str, Value] | Event, int, float]] = []
        self._unguaranteed: list[Mapping[str, Value] | Event] = []
        """What waits for an advertisement to be confirmed."""
        self._unconfirmed = 0
        """Advertisements: an application publishes when they are confirmed."""

    @property
    def publisher(self) -> int:
        """Its number: another one in each life, as the live driver draws it."""
        return self._config.publisher | (self.life - 1) << 32

    # -- life and death ------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process ends without a word, and with it what it wanted, had not sent and had not read."""
        now_ns = self.agenda.now_ns
        for span in self.spans:
            span.leaving_ns, span.gone_ns = min(span.leaving_ns, now_ns), min(span.gone_ns, now_ns)
        self.is_down, self.changed_ns = True, now_ns
        self.life += 1
        config = msgspec.structs.replace(self._config, publisher=self.publisher)
        self.core = ClientCore(config, chance=Random(f"{self._seed}/{self.name}/{self.life}"))
        self._begin_life()
        self.drop_everything()

    def start(self) -> None:
        """The application begins again, wants what it wanted, and offers what it offered."""
        self.is_down = False
        if self.spans:
            self._handle(Wanted("subscribe"))
        if self.has_advertised:
            self._handle(Wanted("publish"))
        wanted, self._wanted = self._wanted, {}
        for number, span in wanted.items():
            self.subscribe(number, span.text)
        for number, text in self._advertised.items():
            self.advertise(number, text)
        for number, record in list(self._following.items()):
            self._follow(number, record if record.ended_ns == FOREVER_NS else self._anew(number))

    # -- what an application does --------------------------------------------------------------------------------------

    def subscribe(self, number: int, text: str, *, delay_s: float | None = None) -> Span:
        """Want this; a number in use gets the new filter in place of the old one. ``delay_s``: what it may take."""
        now_ns = self.agenda.now_ns
        span = Span(number, text, compile_filter(text), now_ns)
        before = self._wanted.get(number)
        self._wanted[number] = span
        if self.is_down:  # in its next life
            return span
        self.spans.append(span)
        if before is not None:
            before.leaving_ns, before.successor = now_ns, span

        def confirmed() -> None:
            span.confirmed_ns = self.agenda.now_ns
            if before is not None:
                before.gone_ns = self.agenda.now_ns

        terms = [] if delay_s is None else [Terms(delay_s=delay_s)]
        self._ask(lambda token: SubscribeTo(token, [number], [encode_filter(span.wanted)], terms), confirmed)
        return span

    def unsubscribe(self, number: int) -> None:
        """No longer want it."""
        span = self._wanted.pop(number, None)
        if span is None or self.is_down:
            return
        span.leaving_ns = self.agenda.now_ns

        def confirmed() -> None:
            span.gone_ns = self.agenda.now_ns

        self._ask(lambda token: UnsubscribeFrom(token, [number]), confirmed)

    def advertise(self, number: int, text: str | None = None) -> None:
        """Say what will be published; without a text, anything. What is published now waits until it is confirmed."""
        self.has_advertised = True
        self._advertised[number] = text
        if self.is_down:
            return
        self._unconfirmed += 1
        wanted = ANYTHING if text is None else encode_filter(compile_filter(text))
        self._ask(lambda token: AdvertiseThat(token, [number], [wanted]), self._confirmed)

    def guarantee(self, attributes: Mapping[str, Value] | Event) -> None:
        """Publish it, so that it is not lost once there is a receipt."""
        if self.is_down:
            return
        if self._unconfirmed:
            self._unguaranteed.append(attributes)
            return
        self._guaranteed += 1
        event, now_ns = _made(attributes), self.agenda.now_ns
        promised = Promised((self.publisher | GUARANTEED, self._guaranteed), event.attributes, now_ns)
        self.promised[promised.key] = promised

        def receipted() -> None:
            promised.receipted_ns = self.agenda.now_ns

        born_ns = self.now_ns
        self._ask(lambda token: Guarantee(token, encode(event), born_ns), receipted)

    def _guarantee_later(self, attributes: Mapping[str, Value] | Event, life: int) -> None:
        if life == self.life:
            self.guarantee(attributes)

    def follow(self, number: int, text: str, name: str) -> FollowerRecord:
        """Be owed all guaranteed events that match, from now on or from where this name was."""
        record = self.followed.setdefault(name, FollowerRecord(name, text, compile_filter(text)))
        self._following[number] = record
        if not self.is_down:
            self._follow(number, record)
        return record

    def _follow(self, number: int, record: FollowerRecord) -> None:
        wanted, places = encode_filter(record.wanted), list(record.places.items())
        # of events that are not guaranteed it gets what it can
        span = Span(number, record.text, record.wanted, self.agenda.now_ns, follows=True)
        self.spans.append(span)

        def begun() -> None:
            span.confirmed_ns = self.agenda.now_ns
            self._begun(number)

        self._ask(lambda token: FollowAs(token, number, wanted, record.name, -1, places), begun)
        self._follows[self._tokens] = number

    def _not_followed(self, number: int) -> None:
        """No broker could be reached for it: an application tries again, soon."""
        life, record = self.life, self._following[number]
        again = partial(self._follow_later, number, record, life)
        self.agenda.after(in_ns(FOLLOW_AGAIN_S), again)

    def _follow_later(self, number: int, record: FollowerRecord, life: int) -> None:
        if life == self.life and self._following.get(number) is record:
            (self._forget_name if record.ended_ns < FOREVER_NS else self._follow)(number, record)

    def end_name(self, number: int) -> None:
        """It is over for good; when that is known, it begins anew, by the same name."""
        record = self._following.get(number)
        if record is not None and not self.is_down and record.ended_ns == FOREVER_NS:
            record.ended_ns = self.agenda.now_ns
            for span in (one for one in self.spans if one.follows and one.number == number):
                span.leaving_ns = min(span.leaving_ns, self.agenda.now_ns)
            self._forget_name(number, record)

    def _forget_name(self, number: int, record: FollowerRecord) -> None:
        self._ask(
            lambda token: UnfollowFor(token, number, record.name),
            lambda: self._follow(number, self._anew(number)),
        )
        self._follows[self._tokens] = number

    def _anew(self, number: int) -> FollowerRecord:
        before = self._following[number]
        for span in (one for one in self.spans if one.follows and one.number == number):
            span.gone_ns = min(span.gone_ns, self.agenda.now_ns)
        self.names_ended.append(before)
        record = FollowerRecord(before.name, before.text, before.wanted)
        self.followed[record.name] = self._following[number] = record
        return record

    def _begun(self, number: int) -> None:
        following, record = self.core.followings.get(number), self._following.get(number)
        if following is not None and record is not None:
            record.begun = dict(following.places) | record.begun
            record.confirmed_ns = min(record.confirmed_ns, self.agenda.now_ns)

    def unadvertise(self, number: int) -> None:
        """That will no longer be published."""
        is_known = number in self._advertised
        self._advertised.pop(number, None)
        if not self.is_down and is_known:
            self._ask(lambda token: UnadvertiseThat(token, [number]), lambda: None)

    def publish(self, attributes: Mapping[str, Value] | Event, *, count: int = 1, over_s: float = 0.0) -> None:
        """Publish it now, or as soon as there is a connection for it.

        With a count: so many equal events, which were born evenly in the time up to now, the last of them now. They
        are told at once where the engine can take them so.
        """
        if self.is_down:
            return
        if self._publish_on is None or self._unconfirmed:
            count = min(count, WAITING_MAX - sum(waiting for _, waiting, _ in self._waiting))
            if count > 0:
                self._waiting.append((attributes, count, over_s))
            return
        event = _made(attributes)
        if not self._may_make(event.attributes):
            return
        every_ns = in_ns(over_s) // count
        born_ns = self.now_ns - (count - 1) * every_ns
        if self.has_flows:
            self._publish_on_line(event, born_ns, Repeat(count, every_ns))
        else:
            for i in range(count):
                self._publish_on_line(event, born_ns + i * every_ns, ONE)

    def _may_make(self, attributes: Mapping[str, Value]) -> bool:
        """Is it wanted, and within its limits? As in the live driver, before anything is made of it."""
        restraint = self.core.valuing.restraint
        if restraint is None:
            return True
        covers = {number: _covers(text) for number, text in self._advertised.items()} if restraint.quenched else {}
        try:
            kind = restraint.check(attributes, is_guaranteed=False, offers=covers, now_ns=self.now_ns)
        except Overloaded:
            self.held_back += 1
            return False
        if kind is None:
            self.suppressed += 1
            self._note_suppressed(make_event(attributes), self.suppressed)
        return kind is not None

    def _judge(self, event: Event) -> None:
        valuing, envelope = self.core.valuing, event.envelope
        worth = self.judge(event.attributes) if valuing.is_asked and self.judge is not None else None
        if worth is not None:
            source = envelope.pubend if envelope.tick is not None else envelope.tree
            valuing.judged(source or 0, envelope.publisher or 0, event.attributes, worth)

    def _confirmed(self) -> None:
        self._unconfirmed -= 1
        self.on_advertised()
        self._publish_waiting()
        waiting, self._unguaranteed = self._unguaranteed, []
        life = self.life
        for attributes in waiting:  # not before the machine has done with what it is at
            self.agenda.at(self.agenda.now_ns, partial(self._guarantee_later, attributes, life))

    def _publish_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:  # not before the machine has heard of what is published already
            life = self.life
            self.agenda.at(self.agenda.now_ns, lambda: self._publish_all(waiting) if life == self.life else None)

    def _publish_all(self, waiting: list[tuple[Mapping[str, Value] | Event, int, float]]) -> None:
        for attributes, count, over_s in waiting:
            self.publish(attributes, count=count, over_s=over_s)

    def wants(self) -> dict[int, Span]:
        """What it wants now, by number."""
        return self._wanted

    def follows(self) -> dict[int, FollowerRecord]:
        """What it follows, by number."""
        return self._following

    def is_waiting(self) -> bool:
        """Has it asked for something that is not answered?"""
        return bool(self._finished)

    @property
    def outstanding(self) -> int:
        """How many things has it asked for that are not answered, events without a receipt among them?"""
        return len(self._finished)

    def _ask(self, make: Callable[[int], ClientEvent], finished: Callable[[], object]) -> None:
        self._tokens += 1
        self.changed_ns = self.agenda.now_ns
        self._finished[self._tokens] = finished
        self._handle(make(self._tokens))

    def _is_due(self, number: int, event: Event) -> tuple[PubendId, Tick] | None:
        """Where in its stream is an event that is followed, if it is owed to the application?"""
        pubend, tick = PubendId(event.envelope.pubend or 0), Tick(event.envelope.tick or 0)
        record = self._following[number]
        self._begun(number)
        if not self.core.followings.is_due(number, pubend, tick):
            return None
        record.received.append(Followed(self.agenda.now_ns, pubend, tick, key_of(event), event.attributes))
        record.places[pubend] = Tick(tick + 1)
        return pubend, tick

    def _note_told(self, told: Tell) -> None:
        self.told.append((self.agenda.now_ns, told))
        if told.what == "gap":
            record, pubend = self._following[int(told.facts["number"])], PubendId(int(str(told.facts["pubend"]), 16))
            record.gaps.append((pubend, Tick(int(told.facts["first"])), Tick(int(told.facts["last"]))))
            record.places[pubend] = Tick(int(told.facts["last"]) + 1)

    @abstractmethod
    def _handle(self, event: ClientEvent) -> None:
        """Something has happened, for the machine."""

    @abstractmethod
    def _note_suppressed(self, event: Event, number: int) -> None:
        """It was to be published, and nobody is known to want it."""

    @abstractmethod
    def _publish_on_line(self, event: Event, born_ns: int, repeat: Repeat) -> None:
        """So many equal events go to the broker."""


def _covers(text: str | None) -> Callable[[Mapping[str, Value]], bool]:
    return (lambda _: True) if text is None else compile_filter(text).accepts


def _made(attributes: Mapping[str, Value] | Event) -> Event:
    return attributes if isinstance(attributes, Event) else make_event(attributes)

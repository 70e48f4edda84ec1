"""What has the application asked for: what waits, what is being answered, and what has to be said again?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from tidewire.client.events import (
    AdvertiseThat,
    CloseChannelFor,
    Connect,
    Finished,
    FlushAll,
    FollowAs,
    OpenChannelFor,
    PublishSoon,
    SubscribeTo,
    UnadvertiseThat,
    UnfollowFor,
    UnsubscribeFrom,
)
from tidewire.client.followings import Following
from tidewire.client.tunings import Tuning
from tidewire.model.channel_messages import CloseChannel
from tidewire.model.errors import Unavailable
from tidewire.model.ids import Conn, Nanoseconds, Tick
from tidewire.model.messages import (
    WANTED_BYTES_MAX,
    WANTED_MAX,
    Advertise,
    Flush,
    Message,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Use,
)
from tidewire.model.stream_messages import Unfollow
from tidewire.model.traffic import NO_TERMS, Terms

Request = (
    Connect
    | SubscribeTo
    | UnsubscribeFrom
    | AdvertiseThat
    | UnadvertiseThat
    | FlushAll
    | PublishSoon
    | FollowAs
    | UnfollowFor
    | OpenChannelFor
    | CloseChannelFor
)
Asked = Request | Use | Following | Tuning
"""A request under way: the application's, or ours that says everything of a use again, or one thing that is owed."""

_USE_OF: Final[dict[type, Use | None]] = {
    Connect: None,
    SubscribeTo: "subscribe",
    UnsubscribeFrom: "subscribe",
    AdvertiseThat: "publish",
    UnadvertiseThat: "publish",
    FlushAll: "publish",
    PublishSoon: "publish",
    FollowAs: "subscribe",
    UnfollowFor: "subscribe",
    OpenChannelFor: "subscribe",
    CloseChannelFor: "subscribe",
}


def use_of(request: Asked) -> Use | None:
    """What it is for; None: whatever comes."""
    if isinstance(request, Following | Tuning):
        return "subscribe"
    return request if isinstance(request, str) else _USE_OF[type(request)]


def _numbers(request: SubscribeTo | AdvertiseThat | FollowAs) -> list[int]:
    return [request.number] if isinstance(request, FollowAs) else request.numbers


def _is_ended(request: Asked, end: UnsubscribeFrom | UnadvertiseThat) -> bool:
    """Is any of it taken back?"""
    begin = SubscribeTo | FollowAs if isinstance(end, UnsubscribeFrom) else AdvertiseThat
    return isinstance(request, begin) and not set(end.numbers).isdisjoint(_numbers(request))


class Requests:
    """The requests of a session, and all that brokers have confirmed. Messages are built here, sent elsewhere."""

    def __init__(
        self,
        *,
        give_up_s: float,
        claim: Callable[[], int],
        known: Callable[[int], Following | None],
        tuned: Callable[[OpenChannelFor, int], Tuning],
    ) -> None:
        """``claim``: a new number for each name that is followed. ``known``: what is followed already.

        ``tuned``: what is to be heard of a channel, with this claim.
        """
        self._claim = claim
        self._tuned = tuned
        self._known = known
        self.now_ns = Nanoseconds(0)
        """When what is being handled has happened."""
        self._followed: dict[int, Following] = {}
        """Asked for, and not begun, by the number of the request."""
        self._give_up_ns = int(give_up_s * 1e9)
        self._numbers = 0
        self._said: dict[Use, dict[int, bytes]] = {"publish": {}, "subscribe": {}}
        """Advertisements and subscriptions that were confirmed."""
        self._terms: dict[Use, dict[int, Terms]] = {"publish": {}, "subscribe": {}}
        """What was said of them."""
        self.next_sequence = 1
        """Of the next event that is published."""
        self._read_before = 1
        """A broker has read all events before this one, or they have been told as doubtful."""
        self._flushed: dict[int, int] = {}
        """The next event at the time of a flush, by its number."""
        self._asked: dict[tuple[Conn, int], Asked] = {}
        self._void: dict[tuple[Conn, int], dict[int, None]] = {}
        """What was taken back while it was being asked for: its answer may come behind that of the taking back."""
        self._carried: dict[Conn, list[tuple[Conn, int]]] = {}
        """What is asked for elsewhere, and has been said here with all that is said again."""
        self._early: dict[tuple[Conn, int], None] = {}
        """What has been confirmed elsewhere meanwhile; it is not done before it is here."""
        self._waiting: dict[int, tuple[Request, int]] = {}
        """Requests of the application that wait for a connection, and since when."""

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait(self, request: Request, *, now_ns: Nanoseconds) -> None:
        """It is asked as soon as there is a connection for it."""
        self._waiting[request.token] = request, now_ns

    def is_connecting(self) -> bool:
        """Does the application wait for any broker at all?"""
        return any(isinstance(request, Connect) for request, _ in self._waiting.values())

    def no_longer_waiting(self, use: Use | None) -> Sequence[Request]:
        """What waited for this use until now, and is to be asked for."""
        waiting = [request for request, _ in self._waiting.values() if use_of(request) == use]
        found = [request for request in waiting if not isinstance(request, PublishSoon)]
        for request in found:
            del self._waiting[request.token]
        return found

    def given_up(self, now_ns: Nanoseconds, *, can_publish_later: bool) -> list[Request]:
        """What has waited for too long, and no longer does. While we are served, who publishes waits by design."""
        found = [request for request, since_ns in self._waiting.values() if now_ns >= since_ns + self._give_up_ns]
        for request in found:
            if isinstance(request, PublishSoon) and can_publish_later:
                self.wait(request, now_ns=now_ns)
            else:
                del self._waiting[request.token]
        return [request for request in found if request.token not in self._waiting]

    def may_publish(self) -> list[int]:
        """All who waited to publish; no longer."""
        found = [token for token, (request, _) in self._waiting.items() if isinstance(request, PublishSoon)]
        for token in found:
            del self._waiting[token]
        return found

    def may_not_publish(self, *, now_ns: Nanoseconds) -> None:
        """Nobody serves us any more: who waits to publish has waited for that since now."""
        for request, _ in list(self._waiting.values()):
            if isinstance(request, PublishSoon):
                self.wait(request, now_ns=now_ns)

    def abandoned(self) -> list[int]:
        """All that waits, or for whose answer we wait; no longer."""
        owed = [request.token for request in self._asked.values() if isinstance(request, Tuning)]
        asked = [request for request in self._asked.values() if not isinstance(request, str | Following | Tuning)]
        tokens = [request.token for request in [*asked, *(request for request, _ in self._waiting.values())]]
        self._asked.clear()
        self._void.clear()
        self._carried.clear()
        self._early.clear()
        self._flushed.clear()
        self._waiting.clear()
        return [*tokens, *(token for token in owed if token is not None)]

    def deadline_ns(self) -> int | None:
        """When something will have waited for too long."""
        return min((since_ns + self._give_up_ns for _, since_ns in self._waiting.values()), default=None)

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, conn: Conn, request: Request) -> Message:
        """What to say to the broker."""
        if isinstance(request, OpenChannelFor):
            return self.tune(conn, self._tuned(request, self._claim()))
        number = self._number(conn, request)
        match request:
            case SubscribeTo(_, numbers, filters, terms):
                return Subscribe(number, numbers, filters, terms)
            case UnsubscribeFrom(_, numbers):
                self._forget("subscribe", numbers)
                self._take_back(conn, request)
                return Unsubscribe(number, numbers)
            case AdvertiseThat(_, numbers, filters, terms):
                return Advertise(number, numbers, filters, self.next_sequence, terms)
            case UnadvertiseThat(_, numbers):
                self._forget("publish", numbers)
                self._take_back(conn, request)
                return Unadvertise(number, numbers)
            case FlushAll():
                self._flushed[number] = self.next_sequence
                return Flush(number)
            case FollowAs(_, each, wanted, name, since, places, done, terms):
                known = self._known(each)
                is_change = known is not None and known.name == name
                claim = known.claim if known is not None and is_change else self._claim()
                following = Following(each, wanted, name, claim=claim, since=since, terms=terms)
                following.places.update(places)
                following.undone.update((pubend, (tick, Tick(following.places[pubend] - 1))) for pubend, tick in done)
                if known is not None and is_change:
                    following.goes_on(known)
                self._followed[number] = following
                return following.message(number, now_ns=self.now_ns)
            case UnfollowFor(_, each, name):
                return Unfollow(number, each, name)
            case CloseChannelFor(_, each, is_final):
                return CloseChannel(number, each, is_final)
            case Connect() | PublishSoon():
                raise AssertionError("a connection is not asked for on a connection")

    def follow_again(self, conn: Conn, following: Following) -> Message:
        """What is followed, for another broker."""
        number = self._number(conn, following)
        return following.message(number, now_ns=self.now_ns)

    def tune(self, conn: Conn, tuning: Tuning) -> Message:
        """What is wanted of a channel, for this broker."""
        return tuning.message(self._number(conn, tuning))

    def tune_out(self, tuning: Tuning) -> Message:
        """For a broker that no longer serves it; whatever it answers."""
        self._numbers += 1
        return CloseChannel(self._numbers, tuning.number, is_final=False)

    def followed(self, number: int) -> Following | None:
        """What a broker has begun to tell, if the application has asked for it."""
        return self._followed.pop(number, None)

    def has_said(self, use: Use) -> bool:
        """Is there anything to say again?"""
        return bool(self._said[use])

    def say_again(self, conn: Conn, use: Use) -> Message:
        """All that was confirmed before, for another broker; and, if there is nothing, what is asked for elsewhere."""
        said, terms = dict(self._said[use]), dict(self._terms[use])
        if use == "subscribe" and not said:
            asked = {key: one for key, one in self._asked.items() if isinstance(one, SubscribeTo) and key[0] != conn}
            for one in asked.values():
                said.update(zip(one.numbers, one.filters, strict=True))
                terms.update(zip(one.numbers, one.terms, strict=False))
            self._carried[conn] = list(asked)
        number, told = self._number(conn, use), [terms.get(each, NO_TERMS) for each in said] if terms else []
        if use == "subscribe":
            return Subscribe(number, list(said), list(said.values()), told)
        return Advertise(number, list(said), list(said.values()), self.next_sequence, told)

    def wanted(self) -> list[bytes]:
        """Some of what is, or will be, subscribed to: for a broker that may know of a better one."""
        waiting = [request for request, _ in self._waiting.values()]
        soon = [one for request in waiting if isinstance(request, SubscribeTo) for one in request.filters]
        soon += [request.wanted for request in waiting if isinstance(request, FollowAs)]
        found = dict.fromkeys([*islice(self._said["subscribe"].values(), WANTED_MAX), *soon])
        return [one for one in found if len(one) <= WANTED_BYTES_MAX][:WANTED_MAX]

    def carried(self, conn: Conn) -> Iterator[Finished]:
        """All that was said again there is confirmed: so is what was asked for elsewhere, and it is no longer."""
        for key in self._carried.pop(conn, ()):
            self._early.pop(key, None)
            yield from self._finished(key)

    def _finished(self, key: tuple[Conn, int]) -> Iterator[Finished]:
        request = self.done(*key)
        if isinstance(request, SubscribeTo):
            yield Finished(request.token)

    def is_bound(self, conn: Conn, use: Use) -> bool:
        """Must an answer be awaited there before all is said elsewhere?

        Not if nothing is confirmed yet: then all that is asked for goes along, and nothing is owed by this broker.
        """
        is_fresh = use == "subscribe" and not self._said[use]
        return any(
            not (is_fresh and isinstance(one, SubscribeTo) and key not in self._void)
            for key, one in self._asked.items()
            if key[0] == conn and use_of(one) == use
        )

    def take_back(self, use: Use, followed: Iterable[int] = ()) -> Message:
        """For a broker that no longer serves this use; whatever it answers."""
        self._numbers += 1
        numbers = [*self._said[use], *followed]
        return Unsubscribe(self._numbers, numbers) if use == "subscribe" else Unadvertise(self._numbers, numbers)

    def _number(self, conn: Conn, request: Asked) -> int:
        self._numbers += 1
        self._asked[conn, self._numbers] = request
        return self._numbers

    def _take_back(self, conn: Conn, end: UnsubscribeFrom | UnadvertiseThat) -> None:
        for key, asked in self._asked.items():
            if key[0] == conn and _is_ended(asked, end):
                self._void.setdefault(key, {}).update(dict.fromkeys(end.numbers))

    def _forget(self, use: Use, numbers: list[int]) -> None:
        for each in numbers:
            self._said[use].pop(each, None)
            self._terms[use].pop(each, None)

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def in_doubt(self) -> int:
        """How many events has the driver sent that no broker is known to have read?"""
        return self.next_sequence - self._read_before

    def read_before(self, sequence: int) -> None:
        """All events before this one have been read, or told as doubtful."""
        self._read_before = max(self._read_before, sequence)

    def is_asked(self, conn: Conn) -> bool:
        """Is an answer outstanding there?"""
        return any(key[0] == conn for key in self._asked)

    def is_saying_again(self, conn: Conn, use: Use) -> bool:
        """Is it not yet confirmed there what was said again?"""
        return any(key[0] == conn and request == use for key, request in self._asked.items())

    def done(self, conn: Conn, number: int) -> Asked | None:
        """The broker has done it: what? Nothing, if it has been said to another broker since."""
        if any((conn, number) in keys for keys in self._carried.values()):
            self._early[conn, number] = None
            return None
        request, void = self._asked.pop((conn, number), None), self._void.pop((conn, number), {})
        if isinstance(request, SubscribeTo | AdvertiseThat):
            use: Use = "subscribe" if isinstance(request, SubscribeTo) else "publish"
            said = zip(request.numbers, request.filters, strict=True)
            self._said[use].update((each, wanted) for each, wanted in said if each not in void)
            self._note_terms(use, request, void)
        elif isinstance(request, FlushAll):
            self.read_before(self._flushed.pop(number))
        elif isinstance(request, FollowAs):  # if it was taken back, it has not begun
            self._followed.pop(number, None)
        elif isinstance(request, UnsubscribeFrom | UnadvertiseThat):  # what was confirmed since it was asked for, too
            self._forget("subscribe" if isinstance(request, UnsubscribeFrom) else "publish", request.numbers)
        return request

    def _note_terms(self, use: Use, request: SubscribeTo | AdvertiseThat, void: dict[int, None]) -> None:
        for each in request.numbers:
            self._terms[use].pop(each, None)
        named = zip(request.numbers, request.terms, strict=False)
        self._terms[use].update((each, one) for each, one in named if each not in void and one != NO_TERMS)

    def _is_over(self, conn: Conn, request: SubscribeTo | AdvertiseThat | FollowAs, void: dict[int, None]) -> bool:
        """Was all of it taken back, and is that done?"""
        ends = (one for key, one in self._asked.items() if key[0] == conn)
        going = [each for one in ends if isinstance(one, UnsubscribeFrom | UnadvertiseThat) for each in one.numbers]
        return all(each in void and each not in going for each in _numbers(request))

    def _is_wanted(self, end: UnsubscribeFrom | UnadvertiseThat) -> bool:
        """Does it take back what waits to be asked for, or what is followed, and would be told again?"""
        is_followed = isinstance(end, UnsubscribeFrom) and any(self._known(number) for number in end.numbers)
        return is_followed or any(_is_ended(request, end) for request, _ in self._waiting.values())

    def refused(self, conn: Conn, number: int) -> Asked | None:
        """The broker does not do it: what?"""
        self._flushed.pop(number, None)
        self._followed.pop(number, None)
        self._void.pop((conn, number), None)
        return self._asked.pop((conn, number), None)

    def unanswered(self, conn: Conn, *, now_ns: Nanoseconds) -> Iterator[Finished]:
        """A connection has ended: what was asked for there is said again on the next one, where that makes sense."""
        for key in self._carried.pop(conn, ()):
            if key in self._early:  # it stays where it was asked for, and was confirmed there meanwhile
                del self._early[key]
                yield from self._finished(key)
        for key in [key for key in self._asked if key[0] == conn]:
            void = self._void.pop(key, {})
            self._early.pop(key, None)
            match self._asked.pop(key):
                case SubscribeTo() | AdvertiseThat() | FollowAs() as request if self._is_over(conn, request, void):
                    self._followed.pop(key[1], None)
                    yield Finished(request.token)
                case SubscribeTo() | AdvertiseThat() | FollowAs() | UnfollowFor() | CloseChannelFor() as request:
                    self._followed.pop(key[1], None)
                    self.wait(request, now_ns=now_ns)
                case Tuning() as tuning if tuning.token is not None:
                    self.wait(tuning.wanted, now_ns=now_ns)
                case UnsubscribeFrom() | UnadvertiseThat() as request:
                    if self._is_wanted(request):
                        self.wait(request, now_ns=now_ns)
                    else:
                        yield Finished(request.token)
                case FlushAll(token):
                    del self._flushed[key[1]]
                    yield Finished(token, Unavailable("the connection was lost before all had been handled"))

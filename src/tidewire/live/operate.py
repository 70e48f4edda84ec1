"""What is asked of a running broker or coordinator, in one question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from tidewire.broker.balance_documents import NextStep
from tidewire.channels.commands import ChannelAnswer, ChannelCommand
from tidewire.coordinator.balancing import BalanceView
from tidewire.coordinator.core import Question
from tidewire.coordinator.foreign import ForeignAnswer
from tidewire.identity.authority import check_coordinator, check_data_cluster
from tidewire.live.certificates import peer_of
from tidewire.live.credentials import ANONYMOUS, Credentials, context_for
from tidewire.live.sockets import dial, hint_at_tls, is_secured, open_transport
from tidewire.model.channel_messages import Command
from tidewire.model.errors import PeerError, TidewireError, Unavailable, UnknownUser, error_of
from tidewire.model.messages import (
    AskMembers,
    AskStatus,
    Bye,
    Done,
    Drain,
    Member,
    Members,
    Message,
    Rebalance,
    Refused,
    Status,
)
from tidewire.model.placement_messages import (
    AskBalance,
    BrokerFound,
    RegisterBroker,
    RegisterUser,
    ReportFor,
    RequestBroker,
)
from tidewire.wire.connections import Peer
from tidewire.wire.frames import MESSAGE, FrameReader, decode_message, message_frame

_NAMED_MAX: Final = 3
"""Of clients that are behind."""
_NOBODY: Final = "\0"
"""No user is called so: it cannot be registered."""


async def ask(
    address: str,
    question: Message,
    *,
    seconds: float,
    credentials: Credentials = ANONYMOUS,
    check: Callable[[Peer | None, str], None] | None = None,
) -> Message:
    """Ask one thing, and wait for its answer; the credentials' token is the question's own business.

    ``check`` is told, where it is secured, whose certificate is shown at the address, and raises what is wrong with it.
    """
    connection = await dial(address)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = await open_transport(lambda: protocol, connection, address, context_for([address], credentials))
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    frames = FrameReader()
    secured = transport.get_extra_info("ssl_object")
    has_spoken = is_secured(address)
    try:
        async with asyncio.timeout(seconds):
            if check is not None and secured is not None:
                check(peer_of(secured.getpeercert(binary_form=True)), address)
            writer.write(message_frame(question))
            while data := await reader.read(65_536):
                has_spoken = True
                for kind, payload in frames.feed(data):
                    message = decode_message(payload) if kind == MESSAGE else None
                    if isinstance(message, Done | Refused | Status | Members | BrokerFound):
                        return message
                    if isinstance(message, Bye):
                        raise error_of(message.code, message.reason)
            raise _unanswered(address, has_spoken=has_spoken)
    except ConnectionError:
        raise _unanswered(address, has_spoken=has_spoken) from None
    except TimeoutError:
        raise Unavailable(f"{address} did not finish within {seconds:g} s") from None
    except OSError as error:
        raise Unavailable(f"{address} ended the connection without an answer: {error.strerror or error}") from None
    finally:
        writer.close()


def _unanswered(address: str, *, has_spoken: bool) -> Unavailable:
    hint = "" if has_spoken else f": {hint_at_tls(address)}"
    return Unavailable(f"{address} ended the connection without an answer{hint}")


async def drain_broker(address: str, *, seconds: float, credentials: Credentials = ANONYMOUS) -> None:
    """Move all its clients away; Unavailable if they have nowhere to go, or it takes too long: then, who is left."""
    try:
        answer = await ask(address, Drain(1, credentials.token), seconds=seconds, credentials=credentials)
    except Unavailable as error:
        raise Unavailable(error.message + await _who_is_left(address, credentials)) from None
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)


async def rebalance_broker(
    address: str, *, is_dry_run: bool, seconds: float, credentials: Credentials = ANONYMOUS
) -> NextStep:
    """Let a broker look now whether clients should move, and do what follows; or learn what would."""
    question = Rebalance(1, is_dry_run, credentials.token)
    answer = await ask(address, question, seconds=seconds, credentials=credentials)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
    if not isinstance(answer, Status):
        raise PeerError(f"{address} answered {type(answer).__name__} to the wish to rebalance")
    return msgspec.json.decode(answer.document, type=NextStep)


class _Slow(msgspec.Struct):
    name: str
    queued_bytes: int


class _Leaving(msgspec.Struct):
    """Of a broker's status, what one that is being drained is asked for."""

    is_leaving: bool
    clients: int
    slow: list[_Slow]
    slow_clients: int


async def _who_is_left(address: str, credentials: Credentials) -> str:
    """As far as somebody with these credentials may know; empty if it is not being drained."""
    try:
        found = msgspec.json.decode(await status_of(address, credentials=credentials), type=_Leaving)
    except TidewireError:
        return ""
    if not found.is_leaving or not found.clients:
        return ""
    told = f": {found.clients} of its clients are still there, and it goes on moving them"
    if not found.slow_clients:
        return told
    named = ", ".join(f"{one.name} ({one.queued_bytes / 1e6:.1f} MB)" for one in found.slow[:_NAMED_MAX])
    more = "" if found.slow_clients <= _NAMED_MAX else f" and {found.slow_clients - _NAMED_MAX} more"
    return f"{told}. What waits for a client goes first, and these are behind with reading: {named}{more}"


async def status_of(address: str, *, seconds: float = 5.0, credentials: Credentials = ANONYMOUS) -> bytes:
    """How a broker is, as JSON."""
    answer = await ask(address, AskStatus(1, credentials.token), seconds=seconds, credentials=credentials)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
    if not isinstance(answer, Status):
        raise PeerError(f"{address} answered {type(answer).__name__} to a question for its status")
    return answer.document


async def members_of(address: str, *, seconds: float = 5.0, credentials: Credentials = ANONYMOUS) -> list[Member]:
    """Whom a coordinator knows. PeerError if it is somebody else, by its certificate."""
    answer = await _ask_coordinator(address, AskMembers(1, credentials.token), seconds, credentials)
    if not isinstance(answer, Members):
        raise PeerError(f"{address} answered {type(answer).__name__} to a question for its members")
    return answer.members


async def _ask_coordinator(address: str, question: Question, seconds: float, shown: Credentials) -> Message:
    """PeerError if it is somebody else, by its certificate; what it refuses is raised."""
    answer = await ask(address, question, seconds=seconds, credentials=shown, check=check_coordinator)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
    return answer


async def balance_of(address: str, *, seconds: float = 5.0, credentials: Credentials = ANONYMOUS) -> BalanceView:
    """How load is spread, as a coordinator sees it."""
    answer = await _ask_coordinator(address, AskBalance(1, credentials.token), seconds, credentials)
    if not isinstance(answer, Status):
        raise PeerError(f"{address} answered {type(answer).__name__} to a question for its balance")
    return msgspec.json.decode(answer.document, type=BalanceView)


async def command_channels(
    address: str, command: ChannelCommand, *, seconds: float = 30.0, credentials: Credentials = ANONYMOUS
) -> ChannelAnswer:
    """Let a data cluster do something about its channels. PeerError if it is somebody else, by its certificate."""
    question = Command(1, msgspec.json.encode(command), credentials.token)
    answer = await ask(address, question, seconds=seconds, credentials=credentials, check=check_data_cluster)
    if isinstance(answer, Refused):
        raise error_of(answer.code, answer.reason)
    if not isinstance(answer, Status):
        raise PeerError(f"{address} answered {type(answer).__name__} to a command about channels")
    return msgspec.json.decode(answer.document, type=ChannelAnswer)


async def register_user(address: str, user: str, *, seconds: float, credentials: Credentials = ANONYMOUS) -> None:
    """Let a coordinator know this user."""
    answer = await _ask_coordinator(address, RegisterUser(1, user, credentials.token), seconds, credentials)
    if not isinstance(answer, Done):
        raise PeerError(f"{address} answered {type(answer).__name__} to a user who registers")


async def known_to_coordinator(address: str, *, seconds: float, credentials: Credentials) -> None:
    """NotAuthenticated unless a coordinator knows who this is: it asks that first, whatever it is asked."""
    with suppress(UnknownUser):
        await request_broker(address, _NOBODY, None, seconds=seconds, credentials=credentials)


async def tell_of_broker(
    address: str, told: RegisterBroker | ReportFor, *, seconds: float, credentials: Credentials = ANONYMOUS
) -> ForeignAnswer:
    """Let a coordinator know a broker that does not speak the wire, or how loaded it is. The token is in ``told``."""
    answer = await _ask_coordinator(address, told, seconds, credentials)
    if not isinstance(answer, Status):
        raise PeerError(f"{address} answered {type(answer).__name__} to {type(told).__name__}")
    return msgspec.json.decode(answer.document, type=ForeignAnswer)


async def request_broker(
    address: str,
    user: str,
    location: tuple[float, float] | None,
    *,
    seconds: float,
    credentials: Credentials = ANONYMOUS,
) -> BrokerFound:
    """Which broker serves this user? ``location``: latitude and longitude."""
    question = RequestBroker(1, user, location, credentials.token)
    answer = await _ask_coordinator(address, question, seconds, credentials)
    if not isinstance(answer, BrokerFound):
        raise PeerError(f"{address} answered {type(answer).__name__} to a user who asks for a broker")
    return answer

"""The calls by the names of the paper (bad §1.2), as the OpenAPI document has them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidewire.console import placing, tuning


class Call(msgspec.Struct, frozen=True):
    """What is posted, what is answered, and which errors are its own."""

    summary: str
    request: type[msgspec.Struct]
    document: type[msgspec.Struct]
    errors: tuple[int, ...] = ()


CALLS: Final[dict[str, Call]] = {
    "registeruser": Call("Be known to the coordinator.", placing.RegisterUserRequest, placing.RegisteredDocument),
    "requestbroker": Call(
        "Which broker serves this user?", placing.RequestBrokerRequest, placing.ServedByDocument, (404,)
    ),
    "registerbroker": Call(
        "Know a broker that does not speak the wire.",
        placing.RegisterBrokerRequest,
        placing.RegisteredBrokerDocument,
        (409,),
    ),
    "reportload": Call(
        "How loaded it is; who is to go?", placing.ReportLoadRequest, placing.ReportedDocument, (404, 409)
    ),
    "createchannel": Call(
        "Create a channel in the data cluster.", tuning.CreateChannelRequest, tuning.CreatedChannelDocument, (409,)
    ),
    "createbroker": Call(
        "A session for a broker that does not speak the wire.", tuning.CreateBrokerRequest, tuning.SessionDocument
    ),
    "login": Call("A session for a subscriber.", tuning.LoginRequest, tuning.SessionDocument),
    "logout": Call("End a session.", tuning.SessionRequest, tuning.EndedDocument, (404,)),
    "subscribe": Call(
        "Subscribe to a channel.", tuning.SubscribeChannelRequest, tuning.SubscribedChannelDocument, (404,)
    ),
    "unsubscribe": Call("End a subscription.", tuning.SubscriptionRequest, tuning.EndedDocument, (404,)),
    "notify": Call(
        "Which subscriptions have something new? Waits for it.", tuning.NotifyRequest, tuning.NotifyDocument, (404,)
    ),
    "getresults": Call("What has come for a subscription.", tuning.SubscriptionRequest, tuning.ResultsDocument, (404,)),
}

STRUCTS: Final[tuple[Any, ...]] = tuple(
    dict.fromkeys(kind for call in CALLS.values() for kind in (call.request, call.document))
)

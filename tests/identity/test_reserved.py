"""The classes by which brokers speak are nobody else's (peer L1)."""

from __future__ import annotations

from random import Random

import pytest

from tidewire.broker.config import BrokerConfig
from tidewire.broker.core import BrokerCore
from tidewire.identity.reserved import refuse_reserved
from tidewire.language import compile_filter
from tidewire.model.errors import ReservedClass
from tidewire.model.filters import encode_filter
from tidewire.model.ids import BrokerId, Conn, Nanoseconds
from tidewire.model.messages import ANYTHING, VERSION, Advertise, Hello, Refused, Subscribe
from tidewire.wire.connections import Heard, Opened, Send


@pytest.mark.parametrize(
    "text",
    [
        "class = 'LOCAL_PIE'",
        "class in ('LB_CONTROL', 'GLOBAL_PIE') and x > 1",
        "class = 'LOCAL_PIE' or class = 'LB_CONTROL'",
    ],
)
def test_what_is_about_nothing_else_is_refused(text: str) -> None:
    with pytest.raises(ReservedClass, match="reserved for brokers: choose another class"):
        refuse_reserved([encode_filter(compile_filter("x = 1")), encode_filter(compile_filter(text))])


@pytest.mark.parametrize(
    "text",
    ["class = 'STOCK'", "class = 'LOCAL_PIES'", "class like 'LOCAL%'", "name = 'LB_CONTROL'", "class != 'LOCAL_PIE'"],
)
def test_what_is_wider_is_no_fault(text: str) -> None:
    refuse_reserved([encode_filter(compile_filter(text)), ANYTHING])


def test_a_broker_tells_who_asks_for_it() -> None:
    """peer L1: never matched by a client's subscription, never accepted from a client."""
    core = BrokerCore(BrokerConfig(broker=BrokerId("A")), incarnation=1, chance=Random(1))
    now, ann = Nanoseconds(1_000), Conn(0)
    core.handle(Opened(ann), now_ns=now)
    core.handle(Heard(ann, Hello(version=VERSION, name="ann", uses=["subscribe"])), now_ns=now)
    wanted = encode_filter(compile_filter("class = 'LB_CONTROL'"))
    for message in (Subscribe(7, [0], [wanted]), Advertise(7, [0], [wanted])):
        (said,) = [one for one in core.handle(Heard(ann, message), now_ns=now) if isinstance(one, Send)]
        assert isinstance(said.message, Refused)
        assert (said.message.request, said.message.code) == (7, "class-reserved")

"""What brokers and the data cluster say to each other, in the pieces that it travels in."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from tidewire.channels.messages import ToBroker, ToCluster, read_values
from tidewire.model.channel_messages import TALK_BYTES, Talk
from tidewire.model.errors import DamagedFrame

TALK_BYTES_MAX: Final = 512 << 20
"""Of all pieces of one message together."""

_Said = TypeVar("_Said")
_encoder = msgspec.msgpack.Encoder()
_to_cluster: msgspec.msgpack.Decoder[ToCluster] = msgspec.msgpack.Decoder(ToCluster, dec_hook=read_values)
_to_broker: msgspec.msgpack.Decoder[ToBroker] = msgspec.msgpack.Decoder(ToBroker, dec_hook=read_values)


def talk_of(message: ToBroker | ToCluster) -> list[Talk]:
    """The pieces of a message, in order."""
    data = _encoder.encode(message)
    starts = range(0, len(data), TALK_BYTES)
    return [Talk(data[start : start + TALK_BYTES], start + TALK_BYTES >= len(data)) for start in starts]


class Listening(Generic[_Said]):
    """What comes on one connection, put together again."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[_Said]) -> None:
        self._decoder = decoder
        self._pieces: list[bytes] = []
        self._bytes = 0

    def heard(self, talk: Talk) -> _Said | None:
        """The message that is complete with this piece; None: more is to come. DamagedFrame if it is none."""
        self._pieces.append(talk.piece)
        self._bytes += len(talk.piece)
        if self._bytes > TALK_BYTES_MAX:
            raise DamagedFrame(f"a message about channels has at most {TALK_BYTES_MAX} bytes")
        if not talk.is_last:
            return None
        data, self._pieces, self._bytes = b"".join(self._pieces), [], 0
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFrame(f"a message about channels cannot be read: {error}") from None


def listening_to_broker() -> Listening[ToCluster]:
    """For the data cluster: what one broker says."""
    return Listening(_to_cluster)


def listening_to_cluster() -> Listening[ToBroker]:
    """For a broker: what the data cluster says."""
    return Listening(_to_broker)

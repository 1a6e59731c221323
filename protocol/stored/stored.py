"""A message that is stored, or passed inside another one: its version stands in front of it as an int16.

No IO. Keys and values of __consumer_offsets and __transaction_state have this form (a key's version also says which
kind of record it is), and so have the subscription and assignment of a consumer and a forwarded principal. Source:
org.apache.kafka.common.protocol.MessageUtil.
"""

from __future__ import annotations

from typing import Self

from protocol.primitives import Buffer, DecodeError
from protocol.schema import VersionedMessage

VERSION_BYTES = 2


class Stored(VersionedMessage):
    def encode_stored(self, version: int) -> bytes:
        """The message behind its version. Raises EncodeError."""
        return b"".join(type(self).encoder(version)(self, version.to_bytes(VERSION_BYTES, "big", signed=True)))

    @classmethod
    def decode_stored(cls, data: Buffer) -> Self:
        """The opposite of `encode_stored`. Raises DecodeError, also for a version that this class lacks."""
        return cls.decode(data, stored_version(data), VERSION_BYTES)


def stored_version(data: Buffer) -> int:
    """The version in front of a stored message. Raises DecodeError."""
    if len(data) < VERSION_BYTES:
        raise DecodeError("the input is too short for a version")
    return int.from_bytes(data[:VERSION_BYTES], "big", signed=True)

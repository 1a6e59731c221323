"""The scalar encodings of the Kafka protocol, and the two errors that every codec raises.

No IO. Big-endian throughout. A uuid is its 16 raw bytes, everywhere in this broker: on the wire, in memory, as a key
of a dict; only text forms (znodes, `partition.metadata`, logs) use Kafka's URL-safe base64 without padding. The
compiled codecs (`protocol.codec`) inline most of this; they, the headers and hand-written formats use these functions.
"""

from __future__ import annotations

import base64
import re

from protocol.java_text import AS_JAVA

Buffer = bytes | bytearray | memoryview

UUID_BYTES = 16
ZERO_UUID = bytes(UUID_BYTES)
ONE_UUID = bytes(15) + b"\x01"  # reserved by Kafka: the topic id of its metadata log
MAX_STRING_BYTES = 0x7FFF  # the bound of the classic int16 length, which Kafka keeps for compact strings
_UUID_TEXT_CHARACTERS = 22
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


class Encoded(bytes):
    """The wire form of an array, including its length, made by `VersionedMessage.array_encoder`."""

    __slots__ = ()


class DecodeError(ValueError):
    """The bytes do not follow their format. The connection that sent them is closed."""


class EncodeError(ValueError):
    """The message cannot be expressed in this version (Kafka: UnsupportedVersionException), or a value does not fit."""


def uuid_to_text(uuid: bytes) -> str:
    """Return Kafka's text form: 22 characters, URL-safe base64 without padding."""
    if len(uuid) != UUID_BYTES:
        raise EncodeError(f"a uuid has 16 bytes, not {len(uuid)}")
    return base64.urlsafe_b64encode(uuid)[:_UUID_TEXT_CHARACTERS].decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Decode the result of `uuid_to_text`; padding is accepted. Raises DecodeError."""
    if _UUID_TEXT.fullmatch(text) is None:
        raise DecodeError(f"not a uuid: {text!r}")
    return base64.urlsafe_b64decode(text[:_UUID_TEXT_CHARACTERS] + "==")


def decode_text(raw: Buffer) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD, as in Kafka."""
    return str(raw, "utf-8", AS_JAVA)


def encode_text(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"not Unicode: {error}") from error
    if len(raw) > MAX_STRING_BYTES:
        raise EncodeError(f"a string of {len(raw)} bytes is longer than {MAX_STRING_BYTES}")
    return raw


def decode_nullable_string(data: Buffer, position: int) -> tuple[str | None, int]:
    """Decode an int16 length and UTF-8 bytes; a negative length is null. Returns the value and the position after it."""
    if len(data) < position + 2:
        raise DecodeError("the input ends inside a string length")
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise DecodeError("the input ends inside a string")
    return decode_text(data[position:end]), end


def encode_nullable_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = encode_text(text)
    return len(raw).to_bytes(2, "big") + raw

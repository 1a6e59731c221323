"""Where reading goes on, as a text that a client keeps: nothing about it is kept here. Pure.

It names positions in partitions and the partitions that are done, beside a checksum of what the reading was about:
with other parameters it is refused. It gives no rights: what it names is read as whoever sends it.
Bounded: at most `MAX_POSITIONS` positions, so that it has a place in an address and in a header.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from web.messages.partition_lists import parse_partitions, partitions_text

MAX_POSITIONS: Final = 128
_MAX_CHARS: Final = 8_192
_MAX_JSON_BYTES: Final = 64 << 10
_MAX_OFFSET: Final = (1 << 63) - 1


class InvalidCursor(ValueError):
    """The text says why."""


class CursorKind(Enum):
    SEARCH = "s"
    FOLLOW = "f"
    OLDER = "o"
    NEWER = "n"


@dataclass(frozen=True, slots=True)
class Cursor:
    """`positions` are the next offset, and the end, of partitions: for OLDER the offset before which reading goes on."""

    kind: CursorKind
    positions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    done: frozenset[int] = frozenset()

    def text(self, about: str) -> str:
        """Return the text. `about` are the parameters that must be the same."""
        assert len(self.positions) <= MAX_POSITIONS
        content: dict[str, Any] = {"k": self.kind.value, "a": _checksum(about)}
        if self.positions:
            content["p"] = [[partition, *position] for partition, position in self.positions.items()]
        if self.done:
            content["d"] = partitions_text(self.done)
        packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, about: str, *kinds: CursorKind) -> Cursor:
        """Raises InvalidCursor."""
        try:
            content = _unpacked(text)
            kind = CursorKind(content["k"])
            positions = {_number(partition): (_number(at), _number(end)) for partition, at, end in content.get("p", ())}
            done = frozenset(parse_partitions(content["d"]) if "d" in content else ())
            checksum = content["a"]
        except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
            raise InvalidCursor("this is no cursor of an earlier answer") from error
        if kind not in kinds or len(positions) > MAX_POSITIONS:
            raise InvalidCursor("the cursor is one of another kind of reading")
        if checksum != _checksum(about):
            raise InvalidCursor("the cursor belongs to other parameters")
        return cls(kind, positions, done)


def _checksum(about: str) -> int:
    return zlib.crc32(about.encode("utf-8", "surrogatepass"))


def _unpacked(text: str) -> dict[str, Any]:
    if len(text) > _MAX_CHARS:
        raise ValueError
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError from error
    unpacking = zlib.decompressobj()
    content = json.loads(unpacking.decompress(packed, _MAX_JSON_BYTES))
    if not isinstance(content, dict):
        raise TypeError
    return content


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_OFFSET:
        raise ValueError
    return value

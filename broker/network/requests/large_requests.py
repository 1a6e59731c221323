"""Large requests wait undecoded: a few kilobytes of frame become megabytes of objects, once it is their turn.

Rules: no IO. Concerns requests that are barriers of their connection and hold no records; what the cluster waits for
is exempt (`broker.network.dispatch.URGENT_KEYS`). A large request waits in the queue of long work
(`runtime.slices.SerialQueue`) and is decoded when it is the first there, so that one of them is in memory at a time
however many connections send some.
Invariant: a client sees no difference: its requests are handled in their order, and refused with the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.primitives import DecodeError

if TYPE_CHECKING:
    from protocol.schema import Request
    from runtime.disk.filesystem import Buffer

LARGE_REQUEST_BYTES = 4 * 1024

Decode = Callable[["Buffer", int, int], tuple["Request", int]]


class Undecoded:
    """A request as it came."""

    __slots__ = ("_decode", "_frame", "_max_elements", "_outcome", "_position")

    def __init__(self, decode: Decode, frame: Buffer, position: int, max_elements: int) -> None:
        self._decode = decode
        self._frame = frame
        self._position = position
        self._max_elements = max_elements
        self._outcome: Request | DecodeError | None = None

    def decode(self) -> None:
        try:
            self._outcome = self._decode(self._frame, self._position, self._max_elements)[0]
        except DecodeError as error:
            self._outcome = error
        self._frame = b""

    @property
    def request(self) -> Request:
        """Once, after `decode`. Raises DecodeError."""
        outcome, self._outcome = self._outcome, None
        assert outcome is not None
        if isinstance(outcome, DecodeError):
            raise outcome
        return outcome


def small_only(decode: Decode) -> Callable[[Buffer, int, int], tuple[Request | Undecoded, int]]:
    """A decoder that leaves large frames as they are."""

    def decode_small(frame: Buffer, position: int, max_elements: int) -> tuple[Request | Undecoded, int]:
        if len(frame) <= LARGE_REQUEST_BYTES:
            return decode(frame, position, max_elements)
        return Undecoded(decode, frame, position, max_elements), len(frame)

    return decode_small

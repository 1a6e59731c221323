"""One module per codec, each imported by the first batch that needs it: what no client uses is not in memory.

Rules: pure, like all of `protocol.records`. A module that is loaded in the middle of serving takes two milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from protocol.primitives import Buffer

Stream: TypeAlias = tuple[bytes, Callable[[bytes], bytes], Callable[[], bytes]]
"""What comes first, a function that compresses a piece, and one that gives the rest."""


class Codec(Protocol):
    """What the modules have in common. A `level` of None is Kafka's default of the codec."""

    @property
    def ERRORS(self) -> tuple[type[Exception], ...]:
        """What `chunks` raises for data that is broken, besides EOFError (it is not whole) and RuntimeError."""

    def compress(self, data: Buffer, level: int | None) -> bytes: ...

    def stream(self, level: int | None) -> Stream: ...

    def chunks(self, data: memoryview, chunk_bytes: int) -> Iterator[Buffer]:
        """The decompressed data in pieces of about `chunk_bytes`; some may be empty."""

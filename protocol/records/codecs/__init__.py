"""One module per codec, each imported for the first batch that needs it, so that unused codecs take no memory.

Rules: pure, like all of `protocol.records`. Importing a module while the broker serves takes two milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from protocol.primitives import Buffer

Stream: TypeAlias = tuple[bytes, Callable[[bytes], bytes], Callable[[], bytes]]
"""The first bytes of the output, a function that compresses a piece, and one that returns the remaining output."""


class Codec(Protocol):
    """The interface of the codec modules. A `level` of None is Kafka's default of the codec."""

    @property
    def ERRORS(self) -> tuple[type[Exception], ...]:
        """The exceptions that `chunks` raises for malformed data, besides EOFError (it is incomplete) and RuntimeError."""

    def compress(self, data: Buffer, level: int | None) -> bytes: ...

    def stream(self, level: int | None) -> Stream: ...

    def chunks(self, data: memoryview, chunk_bytes: int) -> Iterator[Buffer]:
        """Iterate over the decompressed data in chunks of about `chunk_bytes`; some may be empty."""

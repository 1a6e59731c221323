"""What goes out and comes in on one connection: requests with correlation ids, and their responses in the same order. Pure.

A broker responds in order, so a response without the oldest correlation id means that the stream is broken. With each request
goes a `waiter`, which its response comes back with; what it is, the shell knows: a future, or nothing.

Rules: no IO; frames are cut by the shell. The response to an ApiVersions request that the broker does not know in this version
is in version 0 (KIP-511).
Errors: DecodeError for a malformed response; the connection is to be closed then.
Source: Kafka NetworkClient, InFlightRequests; KIP-219.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from client.throttling import throttle_ms
from protocol.errors import ErrorCode
from protocol.header import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.primitives import Buffer, DecodeError
from protocol.schema import MAX_ELEMENTS, Request, Response

W = TypeVar("W")
_ERROR_AT: Final = slice(4, 6)
"""Where a response to ApiVersions has its error: behind the correlation id."""


class Exchange(Generic[W]):
    """The requests of one connection that have no response yet."""

    def __init__(self, client_id: str | None, max_elements: int = MAX_ELEMENTS) -> None:
        self._client_id = client_id
        self._max_elements = max_elements
        self._pending: deque[tuple[int, type[Response], int, W]] = deque()
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def request(self, request: Request, version: int, waiter: W) -> list[Buffer]:
        """Return what is to be sent. Raises EncodeError."""
        correlation_id = self._next_id
        chunks = encode_request(request, version, correlation_id, self._client_id)
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        self._pending.append((correlation_id, request.response_type, version, waiter))
        return chunks

    def unanswered(self, request: Request, version: int) -> list[Buffer]:
        """Return what is to be sent of the one request without a response: Produce with acks=0. Raises EncodeError."""
        chunks = encode_request(request, version, self._next_id, self._client_id)
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        return chunks

    def response(self, frame: Buffer) -> tuple[W, Response, int]:
        """Return the response to the oldest request with its waiter, and for how many milliseconds the broker wants no further
        request. Raises DecodeError."""
        if not self._pending:
            raise DecodeError("a response came that no request waits for")
        expected, kind, version, waiter = self._pending[0]
        if kind is ApiVersionsResponse and bytes(frame[_ERROR_AT]) == _UNSUPPORTED:
            version = 0
        found, response = decode_response(frame, kind, version, max_elements=self._max_elements)
        if found != expected:
            raise DecodeError(f"response {found} came instead of {expected}")
        self._pending.popleft()
        return waiter, response, throttle_ms(response, version) if getattr(response, "throttle_time_ms", 0) else 0

    def abandoned(self) -> Iterator[W]:
        """Forget all requests, and iterate over their waiters, the oldest first: the connection is lost."""
        while self._pending:
            yield self._pending.popleft()[3]


_UNSUPPORTED: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")

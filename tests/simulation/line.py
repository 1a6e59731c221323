"""What a simulated client speaks through: a connection to the one broker, or a way through a cluster."""

from __future__ import annotations

from typing import Protocol, TypeVar

from protocol.errors import ErrorCode
from protocol.schema import Request, Response

R = TypeVar("R", bound=Response)

# Answers of a broker that is not ready for the client yet, or no more.
NOT_NOW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)


class Unavailable(Exception):
    """No answer: it is not known whether the request was carried out."""


class Line(Protocol):
    """`life` names what answered last: whoever is restarted, or replaced, comes under another number.
    `is_up_to_date` is false when it did not know yet that another has taken its place."""

    name: str

    @property
    def life(self) -> int: ...

    @property
    def connections_count(self) -> int: ...

    @property
    def is_up_to_date(self) -> bool: ...

    async def call(self, request: Request, version: int, response_type: type[R]) -> R:
        """Raises Unavailable."""

    async def call_unanswered(self, request: Request, version: int) -> None:
        """Raises Unavailable."""

    async def pause(self) -> None:
        """Before another try."""

"""Which errors a response has, for the metric ErrorsPerSec. Pure.

A response of many parts has an error code for each: of a topic, a partition, a group. All of them count, NONE too.

Rules: derived from the tables of messages; one function for each response type and version, made once.
Source: Kafka AbstractResponse.errorCounts and those of its subclasses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol.fields import Struct
    from protocol.schema import Response

ErrorCounter = Callable[[Any, Counter[int]], None]
"""Adds the errors of a response to a counter, by their codes."""

_CODES = frozenset({"error_code", "partition_error_code"})
_NEVER = frozenset({"DeleteAclsMatchingAcl", "DescribeUserScramCredentialsResponse"})
_NOT_EARLY = frozenset({"AddPartitionsToTxnResponse", "MetadataResponse", *_NEVER})
"""Messages whose own error code Apache Kafka does not count: never, or not in versions that are too old to have it."""


def error_counter(response_type: type[Response], version: int) -> ErrorCounter | None:
    """Return what counts the errors of a response of this version; None when it has no error codes."""
    return _counter(response_type, version)


def _counter(message_type: type[Struct], version: int) -> ErrorCounter | None:
    own: Callable[[Any], int] | None = None
    branches: list[tuple[Callable[[Any], Any], ErrorCounter]] = []
    for field in message_type.__fields__:
        element = field.element
        if field.name in _CODES:
            is_early = version < field.versions.first  # without the code: it counts by its default, NONE
            if version <= field.versions.last and message_type.__name__ not in (_NOT_EARLY if is_early else _NEVER):
                own = attrgetter(field.name)
        elif field.kind == "array" and isinstance(element, type) and field.versions.covers(version):
            inner = _counter(element, version)
            if inner is not None:
                branches.append((attrgetter(field.name), inner))
    if not branches:
        return None if own is None else _of_one(own)
    return _of_many(own, branches)


def _of_one(own: Callable[[Any], int]) -> ErrorCounter:
    def count(message: Any, errors: Counter[int]) -> None:
        errors[own(message)] += 1

    return count


def _of_many(
    own: Callable[[Any], int] | None, branches: list[tuple[Callable[[Any], Any], ErrorCounter]]
) -> ErrorCounter:
    def count(message: Any, errors: Counter[int]) -> None:
        if own is not None:
            errors[own(message)] += 1
        for elements, count_element in branches:
            for element in elements(message) or ():
                count_element(element, errors)

    return count

"""A request to a place in the cluster, as a step that a shell carries out; and answers in rows, each asked for again until it
stands. Pure.

    responses = yield AskPlaces({place: request, ...})     for each place its response, or the KafkaError that it failed with
    places = yield Locate(kind, keys)                the broker of each key, or the KafkaError in its place
    goes_on = yield Retry(errors)                    forget what these errors disprove, and wait; False: the time is over
    yield Forget(errors)                             forget what these errors disprove

Rules: a place is a broker id, or one of `Place`. A row whose error may pass is asked for again until the shell's time is over,
and has that error then. A request may have been carried out though its response was lost; it is sent again all the same, as
Kafka's admin client does.
Source: Kafka KafkaAdminClient, AdminApiDriver, AdminApiLookupStrategy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from protocol.errors import ErrorCode, KafkaError
from protocol.schema import Request, Response

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Place(Enum):
    """Where a request goes that names no broker."""

    ANY = "any broker"
    CONTROLLER = "the controller"


class KeyKind(Enum):
    """What a broker is located by."""

    LEADER = "leader"
    """Of a TopicPartition."""
    GROUP = 0
    TRANSACTION = 1
    """Coordinators; the values are FindCoordinator's."""


class ByVersion(NamedTuple):
    """A request whose fields depend on the version that the broker knows."""

    kind: type[Request]
    in_version: Callable[[int], Request]


AnyRequest = Request | ByVersion


def kind_of(request: AnyRequest) -> type[Request]:
    """Return the class of a request."""
    return type(request) if isinstance(request, Request) else request.kind


class AskPlaces(NamedTuple):
    """Send requests to places side by side."""

    requests: Mapping[int | Place, AnyRequest]


class Locate(NamedTuple):
    """Find the brokers of keys."""

    kind: KeyKind
    keys: Collection[Any]


class Retry(NamedTuple):
    """Wait before another attempt."""

    errors: Collection[KafkaError]


class Forget(NamedTuple):
    """Ask again, when it is needed the next time, for what these errors disprove."""

    errors: Collection[KafkaError]


Steps = Generator[AskPlaces | Locate | Retry | Forget, Any, T]
Rows = Iterable[tuple[K, int, str | None, V]]
"""What a response says: key, error code, message of the error, value."""
Locator = Callable[[list[K]], Steps[Mapping[K, int | Place | KafkaError]]]
"""Where to ask for keys."""


def ask(request: AnyRequest, place: int | Place = Place.ANY) -> Steps[Any]:
    """Return the response. A top-level error that may pass is waited out. Raises KafkaError."""
    while True:
        responses = yield AskPlaces({place: request})
        response = responses[place]
        error = response if isinstance(response, KafkaError) else error_of(response)
        if error is None:
            return response
        if not (may_pass(error) and (yield Retry([error]))):
            raise error


def rows_of(
    keys: Iterable[K],
    locate: Locator[K],
    request_of: Callable[[list[K]], AnyRequest],
    read: Callable[[Any], Rows[K, V]],
    passes: Callable[[KafkaError], bool] | None = None,
) -> Steps[dict[K, V | KafkaError]]:
    """Return a value or an error for each key: ask the place of each, all places side by side. `passes` says which errors may
    pass, where it is not `may_pass`."""
    passes = passes or may_pass
    found: dict[K, V | KafkaError] = {}
    left = list(keys)
    while left:
        failed: dict[K, KafkaError] = {}
        by_place: dict[int | Place, list[K]] = defaultdict(list)
        for key, place in (yield from locate(left)).items():
            if isinstance(place, KafkaError):
                failed[key] = place
            else:
                by_place[place].append(key)
        responses = (yield AskPlaces({place: request_of(some) for place, some in by_place.items()})) if by_place else {}
        for place, some in by_place.items():
            answered = _answered(responses[place], some, read)
            for key, outcome in answered.items():
                if isinstance(outcome, KafkaError):
                    failed[key] = outcome
                else:
                    found[key] = outcome
        again = [key for key, error in failed.items() if passes(error)]
        if again and (yield Retry([failed[key] for key in again])):
            left = again
            found |= {key: error for key, error in failed.items() if key not in set(again)}
        else:
            return found | failed
    return found


def once(steps: Steps[T]) -> Steps[T]:
    """Carry steps out without another attempt: an error that may pass is the result. For who looks again soon anyway."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        if isinstance(step, Retry):
            yield Forget(step.errors)
            result = False
        else:
            result = yield step


def located(kind: KeyKind) -> Locator[Any]:
    """Return what locates keys of this kind."""

    def locate(keys: list[Any]) -> Steps[Mapping[Any, int | Place | KafkaError]]:
        places: Mapping[Any, int | Place | KafkaError] = yield Locate(kind, keys)
        return places

    return locate


def located_at_one(kind: KeyKind, key: str) -> Locator[Any]:
    """Return what locates all keys at the coordinator of one."""

    def locate(keys: list[Any]) -> Steps[Mapping[Any, int | Place | KafkaError]]:
        place = (yield from located(kind)([key]))[key]
        return dict.fromkeys(keys, place)

    return locate


def everything_at(place_of: Callable[[K], int | Place]) -> Locator[K]:
    """Return what knows the place of a key without asking."""

    def locate(keys: list[K]) -> Steps[Mapping[K, int | Place | KafkaError]]:
        yield from ()
        return {key: place_of(key) for key in keys}

    return locate


def at(place: int | Place) -> Locator[Any]:
    """Return what locates all keys at one place."""
    return everything_at(lambda _: place)


def error_of(row: Any) -> KafkaError | None:
    """Return the error of a response or a row, from its fields `error_code` and `error_message`."""
    code = getattr(row, "error_code", 0)
    return KafkaError(ErrorCode.of(code), getattr(row, "error_message", None) or None) if code else None


def may_pass(error: KafkaError) -> bool:
    """Return whether the same request may succeed later. A topic that is not there is not waited for: an administrator wants
    to know."""
    return error.code.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def is_lost(error: KafkaError) -> bool:
    """Return whether no broker has answered, or the one that did is not the right one any more: whatever its row says stays."""
    return error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER)


def by_topic(keys: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(keys):
        found.setdefault(topic, []).append(partition)
    return found


def _answered(
    response: Response | KafkaError, keys: list[K], read: Callable[[Any], Rows[K, V]]
) -> dict[K, V | KafkaError]:
    error = response if isinstance(response, KafkaError) else error_of(response)
    if error is not None:
        return dict.fromkeys(keys, error)
    missing: KafkaError = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's response does not name it.")
    found: dict[K, V | KafkaError] = dict.fromkeys(keys, missing)
    for key, code, message, value in read(response):
        if key in found:  # a broker may tell more than it was asked for
            found[key] = KafkaError(ErrorCode.of(code), message or None) if code else value
    return found

"""Carries steps out, as far as every shell does the same: it finds brokers, and forgets what errors disprove. Pure.

What is left to a shell is to move bytes and to wait:

    outcome = yield AskAny(kind, in_version)     one broker after the other, until one answers
    outcomes = yield AskBrokers({id: request})   each of these brokers, side by side, once
    goes_on = yield Pause(reason)                wait before another attempt; False: the time is over

Rules: what brokers say goes into the view of the cluster, which the shell shares. An answer that is an error is a value; that
no broker answers in time is the shell's exception.
Source: Kafka KafkaAdminClient, AdminApiDriver; Metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from client.admin.steps import AnyRequest, AskPlaces, Forget, KeyKind, Locate, Place, Steps, kind_of
from client.cluster_view import find_coordinator_requests
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import Request

if TYPE_CHECKING:
    from client.cluster_view import ClusterView, Topic
    from protocol.schema import Response

T = TypeVar("T")


class AskAny(NamedTuple):
    """Ask whichever broker answers; the requests, of one kind, depend on the version that it knows. The result is each request
    with its response, or a KafkaError where the broker does not know the kind."""

    kind: type[Request]
    in_version: Callable[[int], Sequence[Request]]


class AskBrokers(NamedTuple):
    """The result is for each broker its response, or the KafkaError that it failed with."""

    requests: Mapping[int, AnyRequest]


class Pause(NamedTuple):
    """Wait before another attempt. Where it `is_needed`, the shell raises when there is no time for one."""

    reason: object
    is_needed: bool = False


Work = Generator[AskAny | AskBrokers | Pause, Any, T]


def carried_out(steps: Steps[T], view: ClusterView) -> Work[T]:
    """Return the result of steps. Raises what they raise."""
    located: list[Locate] = []
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        if isinstance(step, AskPlaces):
            result = yield from _ask_places(view, step.requests)
        elif isinstance(step, Locate):
            located.append(step)
            result = yield from _locate(view, step)
        elif isinstance(step, Forget):
            _forget(view, step.errors, located)
            result = None
        else:
            _forget(view, step.errors, located)
            result = yield Pause(next(iter(step.errors), "there is no answer"))


def topics_there(view: ClusterView, names: Sequence[str] | None) -> Work[dict[str, Topic]]:
    """Return the topics of these names that exist; None asks for all. Raises KafkaError (not authorised, too)."""
    while True:
        response = yield from read_metadata(view, names)
        passing = _passing_error(response, is_all=names is None)
        if passing is None:
            break
        yield Pause(passing, is_needed=True)
    there = [topic.name for topic in response.topics if topic.name in view.topics]
    return {name: view.topics[name] for name in there if name is not None}


def read_metadata(view: ClusterView, names: Iterable[str] | None) -> Work[MetadataResponse]:
    """Ask a broker about the cluster and topics, None for all of them. Raises KafkaError."""
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = _raised((yield AskAny(MetadataRequest, lambda _: [request])))[0][1]
    assert isinstance(response, MetadataResponse)
    view.learn(response, is_of_all_topics=wanted is None)
    return response


def coordinators(view: ClusterView, kind: KeyKind, keys: Iterable[str]) -> Work[dict[str, int | KafkaError]]:
    """Return the coordinator of each key, asking for those that are not known. Raises KafkaError."""
    key_type = int(kind.value)
    wanted = list(keys)
    missing = [key for key in wanted if view.coordinator(key_type, key) is None]
    errors: dict[str, KafkaError] = {}
    if missing:
        asked = AskAny(FindCoordinatorRequest, lambda version: find_coordinator_requests(key_type, missing, version))
        for request, response in _raised((yield asked)):
            errors.update(view.learn_coordinators(request, response))
    unknown = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = {key: view.coordinator(key_type, key) for key in wanted}
    return {key: errors.get(key, unknown) if each is None else each for key, each in found.items()}


def _passing_error(response: MetadataResponse, *, is_all: bool) -> str | None:
    """Return an error that calls for another attempt. Raises KafkaError for one that stays."""
    for topic in response.topics:
        code = ErrorCode.of(topic.error_code)
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            continue
        if code.retriable:
            return f"topic {topic.name}: {code.name}"
        if not is_all:
            raise KafkaError(code, f"topic {topic.name}: {code.message}")
    return None


def _locate(view: ClusterView, step: Locate) -> Work[dict[Any, int | KafkaError]]:
    keys = list(step.keys)
    if step.kind is not KeyKind.LEADER:
        return (yield from coordinators(view, step.kind, keys))
    unknown = view.unknown_topics(topic for topic, _ in keys)
    if unknown:
        yield from read_metadata(view, unknown)
    found: dict[Any, int | KafkaError] = {}
    for key in keys:
        try:
            found[key] = view.leader(key)
        except KafkaError as error:
            found[key] = error
    return found


def _ask_places(
    view: ClusterView, requests: Mapping[int | Place, AnyRequest]
) -> Work[dict[int | Place, Response | KafkaError]]:
    if not view.brokers and any(isinstance(place, int) for place in requests):
        yield from read_metadata(view, [])
    outcomes: dict[int | Place, Response | KafkaError] = {}
    by_broker: dict[int, AnyRequest] = {}
    for place, request in requests.items():
        if isinstance(place, int):
            by_broker[place] = request
        elif place is Place.CONTROLLER:
            controller_id = yield from _controller(view)
            outcomes[place] = (yield AskBrokers({controller_id: request}))[controller_id]
        else:
            outcomes[place] = yield from _ask_any(view, request)
    found: Mapping[int, Response | KafkaError] = (yield AskBrokers(by_broker)) if by_broker else {}
    return {place: found[place] if isinstance(place, int) else outcomes[place] for place in requests}


def _ask_any(view: ClusterView, asked: AnyRequest) -> Work[Response | KafkaError]:
    kind = kind_of(asked)
    outcome = yield AskAny(kind, lambda version: [asked if isinstance(asked, Request) else asked.in_version(version)])
    if isinstance(outcome, KafkaError):
        return outcome
    [(request, response)] = outcome
    if isinstance(request, MetadataRequest):
        view.learn(response, is_of_all_topics=request.topics is None)
    found: Response = response
    return found


def _controller(view: ClusterView) -> Work[int]:
    while view.controller_id is None:
        yield from read_metadata(view, [])
        if view.controller_id is None:
            yield Pause("the cluster has no controller", is_needed=True)
    return view.controller_id


def _forget(view: ClusterView, errors: Collection[KafkaError], located: Iterable[Locate]) -> None:
    """Forget what errors disprove of what was located."""
    remedies = {remedy_of(error.code) for error in errors}
    if Remedy.FIND_CONTROLLER in remedies:
        view.forget_controller()
    for kind, keys in located:
        if kind is KeyKind.LEADER and Remedy.REFRESH_METADATA in remedies:
            view.forget_topics(topic for topic, _ in keys)
        if kind is not KeyKind.LEADER and Remedy.FIND_COORDINATOR in remedies:
            view.forget_coordinators(kind.value, keys)


def _raised(outcome: list[tuple[Any, Any]] | KafkaError) -> list[tuple[Any, Any]]:
    """Return the requests with their responses. Raises the error that is there instead."""
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome

"""What a shell is asked to do for steps. (That both shells do it is in their own tests.)"""

from __future__ import annotations

from typing import Any

import pytest

from client.admin.driver import AskAny, AskBrokers, Pause, carried_out, read_metadata
from client.admin.steps import AskPlaces, ByVersion, KeyKind, Locate, Place, Retry, Steps
from client.cluster_view import ClusterView
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

GROUPS = ListGroupsResponse(error_code=0, groups=[])


def metadata(controller: int) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=each, host="h", port=each) for each in (1, 2)]
    return MetadataResponse(brokers=brokers, controller_id=controller, topics=[])


def asked_once(step: AskPlaces | Locate) -> Steps[Any]:
    return (yield step)


def test_places_are_found_and_brokers_asked_at_once() -> None:
    by_version = ByVersion(ListGroupsRequest, lambda version: ListGroupsRequest(states_filter=[str(version)]))
    request = ListGroupsRequest()
    work = carried_out(asked_once(AskPlaces({1: request, Place.ANY: by_version, 2: request})), ClusterView())
    about = work.send(None)
    assert isinstance(about, AskAny) and about.kind is MetadataRequest
    of_any = work.send([(about.in_version(1)[0], metadata(1))])
    assert isinstance(of_any, AskAny)
    [made] = of_any.in_version(4)
    assert isinstance(made, ListGroupsRequest) and made.states_filter == ["4"]
    assert work.send([(made, GROUPS)]) == AskBrokers({1: request, 2: request})
    lost = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    with pytest.raises(StopIteration) as end:
        work.send({1: GROUPS, 2: lost})
    assert end.value.value == {1: GROUPS, Place.ANY: GROUPS, 2: lost}


def test_a_controller_is_waited_for() -> None:
    request = ListGroupsRequest()
    work = carried_out(asked_once(AskPlaces({Place.CONTROLLER: request})), ClusterView())
    assert isinstance(work.send(None), AskAny)
    assert work.send([(MetadataRequest(topics=None), metadata(-1))]) == Pause(
        "the cluster has no controller", is_needed=True
    )
    assert isinstance(work.send(True), AskAny)
    assert work.send([(MetadataRequest(topics=None), metadata(2))]) == AskBrokers({2: request})


def test_what_errors_disprove_is_located_again() -> None:
    def steps() -> Steps[Any]:
        first = yield Locate(KeyKind.GROUP, ["g"])
        goes_on = yield Retry([KafkaError(ErrorCode.NOT_COORDINATOR)])
        second = yield Locate(KeyKind.GROUP, ["g"])
        return first, goes_on, second

    view = ClusterView()
    view.learn(metadata(1))
    work = carried_out(steps(), view)

    def answer(step: Any, coordinator: int) -> Any:
        [request] = step.in_version(4)
        row = Coordinator(key="g", node_id=coordinator, host="h", port=9, error_code=0, error_message=None)
        return work.send([(request, FindCoordinatorResponse(coordinators=[row]))])

    assert isinstance(answer(work.send(None), 1), Pause)
    again = work.send(True)
    with pytest.raises(StopIteration) as end:
        answer(again, 2)
    assert end.value.value == ({"g": 1}, True, {"g": 2})


def test_a_kind_that_a_broker_does_not_know_is_an_error() -> None:
    work = read_metadata(ClusterView(), None)
    work.send(None)
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        work.send(KafkaError(ErrorCode.UNSUPPORTED_VERSION))

"""Rows of many places: each is asked for again until it stands, or the time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.admin.steps import KeyKind, Place, ask, at, by_topic, located, once, rows_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.client.admin.scripted import ScriptedShell


def _delete(shell: ScriptedShell, groups: list[str], passes: Callable[[KafkaError], bool] | None = None) -> Any:
    return shell.run(
        rows_of(
            groups,
            located(KeyKind.GROUP),
            lambda some: DeleteGroupsRequest(groups_names=some),
            lambda response: ((row.group_id, row.error_code, None, "deleted") for row in response.results),
            passes,
        )
    )


def _response(**codes: int) -> DeleteGroupsResponse:
    rows = [DeletableGroupResult(group_id=name, error_code=code) for name, code in codes.items()]
    return DeleteGroupsResponse(throttle_time_ms=0, results=rows)


def _names(shell: ScriptedShell) -> list[tuple[int | Place, list[str]]]:
    return [(place, request.groups_names) for place, request in shell.asked if isinstance(request, DeleteGroupsRequest)]


def test_keys_of_one_place_are_one_request() -> None:
    shell = ScriptedShell(
        lambda _place, request: _response(**dict.fromkeys(request.groups_names, 0)),  # type: ignore[attr-defined]
        lambda _kind, key: {"a": 1, "b": 2, "c": 1}[key],
    )
    assert _delete(shell, ["a", "b", "c"]) == dict.fromkeys("abc", "deleted")
    assert _names(shell) == [(1, ["a", "c"]), (2, ["b"])]


def test_only_rows_whose_error_may_pass_are_asked_for_again() -> None:
    responses = iter(
        [
            _response(a=ErrorCode.NON_EMPTY_GROUP, b=ErrorCode.NOT_COORDINATOR, c=0),
            _response(b=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            _response(b=0),
        ]
    )
    shell = ScriptedShell(lambda _place, _request: next(responses), retries=5)
    found = _delete(shell, ["a", "b", "c"])
    assert found["a"].code is ErrorCode.NON_EMPTY_GROUP
    assert (found["b"], found["c"]) == ("deleted", "deleted")
    assert _names(shell) == [(1, ["a", "b", "c"]), (1, ["b"]), (1, ["b"])]
    assert shell.retried == ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"]


def test_what_does_not_pass_in_time_has_its_error() -> None:
    shell = ScriptedShell(lambda _place, _request: _response(a=ErrorCode.NOT_COORDINATOR), retries=2)
    assert _delete(shell, ["a"])["a"].code is ErrorCode.NOT_COORDINATOR
    assert len(shell.asked) == 3


def test_a_caller_says_what_may_pass() -> None:
    shell = ScriptedShell(lambda _place, _request: _response(a=ErrorCode.NOT_COORDINATOR), retries=2)
    assert _delete(shell, ["a"], lambda error: False)["a"].code is ErrorCode.NOT_COORDINATOR
    assert len(shell.asked) == 1


def test_what_is_asked_once_is_forgotten_where_it_was_wrong() -> None:
    shell = ScriptedShell(lambda _place, _request: _response(a=ErrorCode.NOT_COORDINATOR, b=0), retries=2)
    steps = rows_of(
        ["a", "b"],
        located(KeyKind.GROUP),
        lambda some: DeleteGroupsRequest(groups_names=some),
        lambda response: ((row.group_id, row.error_code, None, "deleted") for row in response.results),
    )
    found = shell.run(once(steps))
    assert (str(found["a"]), found["b"]) == (str(KafkaError(ErrorCode.NOT_COORDINATOR)), "deleted")
    assert (len(shell.asked), shell.retried, shell.forgotten) == (1, [], ["NOT_COORDINATOR"])


def test_a_lost_broker_hides_no_row_of_another() -> None:
    lost = KafkaError(ErrorCode.NETWORK_EXCEPTION, "connection lost")
    shell = ScriptedShell(
        lambda place, _request: lost if place == 1 else _response(a=0, b=0),
        lambda _kind, key: {"a": 1, "b": 2}[key],
    )
    assert _delete(shell, ["a", "b"]) == {"a": lost, "b": "deleted"}


def test_a_key_without_a_place_has_the_error_of_its_search() -> None:
    refused = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    shell = ScriptedShell(lambda _place, _request: _response(b=0), lambda _kind, key: refused if key == "a" else 1)
    assert _delete(shell, ["a", "b"]) == {"a": refused, "b": "deleted"}


def test_a_row_that_a_response_lacks_is_an_error() -> None:
    found = _delete(ScriptedShell(lambda _place, _request: _response()), ["a"])
    assert found["a"].code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_of_the_whole_response_is_that_of_each_row() -> None:
    shell = ScriptedShell(
        lambda _place, _request: ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, groups=[])
    )
    found = shell.run(rows_of(["x"], at(7), lambda _: ListGroupsRequest(), lambda response: [("x", 0, None, response)]))
    assert isinstance(found["x"], KafkaError)
    assert found["x"].code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("retries", [0, 1])
def test_one_request_waits_for_an_error_that_may_pass(retries: int) -> None:
    responses = iter([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE])
    shell = ScriptedShell(
        lambda _place, _request: ListGroupsResponse(error_code=next(responses), groups=[]), retries=retries
    )
    if retries:
        assert shell.run(ask(ListGroupsRequest())).groups == []
    else:
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            shell.run(ask(ListGroupsRequest()))


def test_an_error_code_of_a_newer_broker_is_an_unknown_error() -> None:
    found = _delete(ScriptedShell(lambda _place, _request: _response(a=9999)), ["a"])
    assert found["a"].code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_partitions_are_grouped_by_topic_in_order() -> None:
    assert by_topic([("b", 1), ("a", 2), ("b", 0)]) == {"a": [2], "b": [0, 1]}

"""What an error code calls for."""

from __future__ import annotations

import subprocess

import pytest

from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode
from tests.oracle import java


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ErrorCode.NONE, Remedy.NONE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Remedy.FAIL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Remedy.FAIL),
        (30_000, Remedy.FAIL),
        (ErrorCode.REQUEST_TIMED_OUT, Remedy.RETRY),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Remedy.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Remedy.REFRESH_METADATA),
        (ErrorCode.NOT_COORDINATOR, Remedy.FIND_COORDINATOR),
        (ErrorCode.NOT_CONTROLLER, Remedy.FIND_CONTROLLER),
    ],
)
def test_the_remedy_of_a_code(code: int, remedy: Remedy) -> None:
    assert remedy_of(code) is remedy


def test_what_may_pass_has_a_remedy_and_nothing_else_has() -> None:
    for code in ErrorCode:
        assert code.retriable == (remedy_of(code) not in (Remedy.FAIL, Remedy.NONE))


@pytest.mark.oracle
def test_metadata_is_asked_for_where_apache_kafkas_clients_do_so() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    command = java.command("", [])
    command[-1:] = [str(java.HERE / "InvalidMetadataCodes.java")]
    codes = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert {int(code) for code in codes} == {code for code in ErrorCode if remedy_of(code) is Remedy.REFRESH_METADATA}

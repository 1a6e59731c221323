"""The socket of the service manager."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.process.os_notify_socket import NotifySocket, notify_socket, watchdog_s


@contextlib.contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0", 1) if address[0] == "@" else address)
        manager.settimeout(30)
        yield manager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_notices_come_as_datagrams(tmp_path: Path, is_abstract: bool) -> None:
    address = f"@barnabas-{secrets.token_hex(8)}" if is_abstract else str(tmp_path / "notify")
    with listening(address) as manager:
        found = notify_socket({"NOTIFY_SOCKET": address})
        assert found is not None
        found.send(b"READY=1\nSTATUS=serving")
        found.send(b"STOPPING=1")
        assert [manager.recv(100), manager.recv(100)] == [b"READY=1\nSTATUS=serving", b"STOPPING=1"]
        found.close()


def test_a_manager_that_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    with listening(str(tmp_path / "notify")):
        found = notify_socket({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert found is not None
        with pytest.raises(BlockingIOError):
            _send_for_ever(found)
        found.close()


def _send_for_ever(found: NotifySocket) -> None:
    for _ in range(100_000):
        found.send(b"WATCHDOG=1")


def test_a_manager_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    found = notify_socket({"NOTIFY_SOCKET": str(tmp_path / "absent")})
    assert found is not None
    with pytest.raises(FileNotFoundError):
        found.send(b"READY=1")
    found.close()


def test_without_a_manager_there_is_no_socket(caplog: pytest.LogCaptureFixture) -> None:
    assert notify_socket({}) is None
    assert notify_socket({"NOTIFY_SOCKET": ""}) is None
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert notify_socket({"NOTIFY_SOCKET": "vsock:2:1"}) is None
        assert notify_socket({"NOTIFY_SOCKET": "@"}) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, None),  # of another process
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_the_watchdog_is_the_one_of_this_process(environment: dict[str, str], expected: float | None) -> None:
    assert watchdog_s(environment, lambda: 7) == expected

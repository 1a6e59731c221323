"""Who listens on a port is read from the kernel, not asked at the port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.listening import (
    PortTakenError,
    is_free,
    listening_processes,
    listens,
    processes_with,
    require_free,
    wait_until_listening,
)
from tests.oracle.ports import lasting_port

LISTEN = "import socket, sys; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")]
)
def test_a_port_on_which_somebody_listens_is_taken_and_its_process_named(family: int, host: str) -> None:
    port = lasting_port()
    with socket.create_server((host, port), family=family):
        assert not is_free(port)
        assert os.getpid() in listening_processes(port)
        with pytest.raises(PortTakenError, match=rf"^port {port} is taken by process {os.getpid()} \(.+\)$"):
            require_free([port])
    assert is_free(port)
    assert listening_processes(port) == []


def test_a_connection_is_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert not listens(os.getpid(), client.getsockname()[1])


def test_a_port_of_ended_connections_is_free() -> None:
    """They stay in TIME_WAIT for a minute at the end that closed first."""
    port = lasting_port()
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    assert is_free(port)


def test_a_server_has_started_when_its_own_process_listens() -> None:
    port = lasting_port()
    with subprocess.Popen([sys.executable, "-c", LISTEN, str(port)], stdin=subprocess.PIPE) as process:
        assert wait_until_listening(process, port, 60)
        assert listening_processes(port) == [process.pid]
        # Another one cannot have the port: it ends, although something answers there.
        with subprocess.Popen([sys.executable, "-c", LISTEN, str(port)], stderr=subprocess.PIPE) as second:
            assert not wait_until_listening(second, port, 60)
            assert b"Address already in use" in second.communicate()[1]
        process.kill()


def test_a_server_that_does_not_listen_in_time_has_not_started() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not wait_until_listening(process, lasting_port(), 0)
        process.kill()


def test_processes_with_a_file_are_those_that_have_it_open(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w"):
        assert processes_with(path) == [os.getpid()]
    assert processes_with(path) == []

"""What the program that has started the command may ask of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.barnabas.supervisor.several import PATIENCE_S, in_sync, kill, lives, produce, read, start_line, until
from tests.barnabas.wire import topics_of


class Owner:
    """The other end of the channel."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(PATIENCE_S)
        self._lines = end.makefile("rw")
        self.ready = self.read()

    def read(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._lines.readline())
        return told

    def ask(self, do: str, broker: int | None, **more: object) -> dict[str, Any]:
        self._lines.write(json.dumps({"id": 5, "do": do, "broker": broker, **more}) + "\n")
        self._lines.flush()
        answer = self.read()
        assert answer.pop("id") == 5
        return answer

    def close(self) -> None:
        self._lines.close()

    def row(self, broker: int) -> dict[str, Any]:
        row: dict[str, Any] = self.ready["brokers"][broker]
        return row


def refused(reason: str) -> dict[str, Any]:
    return {"ok": False, "error": reason, "is_invalid": False}


@contextmanager
def owning(folder: Path, *arguments: str) -> Iterator[tuple[Owner, subprocess.Popen[bytes]]]:
    own, theirs = socket.socketpair()
    line = start_line(folder, "--no-banner", "--control-fd", str(theirs.fileno()), "--discard", str(folder), *arguments)
    with own, theirs, subprocess.Popen(line, pass_fds=[theirs.fileno()], start_new_session=True) as process:
        theirs.close()
        owner = Owner(own)
        try:
            yield owner, process
        finally:
            owner.close()
            own.close()
            process.wait(PATIENCE_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "of").mkdir()
    return tmp_path / "of"


def test_brokers_are_killed_stopped_paused_and_started_again(folder: Path) -> None:
    with owning(folder, "--brokers", "2", "--topic", "orders:1:2") as (owner, _):
        assert owner.ready["event"] == "ready"
        servers = owner.ready["bootstrap_servers"]
        assert servers == ",".join(row["bootstrap_server"] for row in owner.ready["brokers"])
        assert topics_of(owner.row(0)["bootstrap_server"]) == {"orders": 1}
        produce(servers, "orders", ["0"])
        assert owner.ask("pause", 1) == {"ok": True}
        assert Path(f"/proc/{owner.row(1)['process_id']}/stat").read_text().split(") ")[1][0] == "T"
        assert owner.ask("resume", 1) == {"ok": True}
        assert owner.ask("kill", 1) == {"ok": True}
        assert not lives(owner.row(1)["process_id"])
        again = owner.ask("restart", 1)
        assert again["ok"]
        assert again["bootstrap_server"] == owner.row(1)["bootstrap_server"]
        until(lambda: in_sync(servers, "orders") == [0, 1])
        produce(servers, "orders", ["1"])
        assert owner.ask("stop", 0) == {"ok": True}
        produce(again["bootstrap_server"], "orders", ["2"])
        assert owner.ask("restart", 0)["ok"]
        kill(again["process_id"])
        assert owner.read() == {"event": "ended", "broker": 1, "exit_code": -signal.SIGKILL}
        assert owner.ask("pause", 1) == refused("broker 1 does not run")
        assert owner.ask("kill", 7) == refused("there is no broker 7; there are 0, 1")
        assert owner.ask("dance", 0)["error"] == "unknown request 'dance'"
        assert owner.ask("restart", 1)["ok"]
        assert read(servers, "orders", 3) == ["0", "1", "2"]


def test_the_end_of_the_owner_is_the_end_of_all(folder: Path) -> None:
    with owning(folder, "--brokers", "2") as (owner, process):
        assert owner.ask("pause", 0) == {"ok": True}
        owner.close()
    assert process.returncode == 0
    until(lambda: not any(lives(row["process_id"]) for row in owner.ready["brokers"]))
    assert not folder.exists()


def test_a_lone_broker_is_controlled_likewise(folder: Path) -> None:
    with owning(folder) as (owner, process):
        assert (owner.ready["http"], [row["broker"] for row in owner.ready["brokers"]]) == (None, [1001])
        wrong = owner.ask("inject", None, api="Metadata", error="NOT", times=1)
        assert wrong == {"ok": False, "error": "there is no error 'NOT'", "is_invalid": True}
        assert owner.ask("inject", 1001, api="CreateTopics", error="POLICY_VIOLATION", times=1)["ok"]
        assert [row["left"] for row in owner.ask("faults_left", None)["brokers"]] == [1]
        assert owner.ask("restart", 1001)["bootstrap_server"] == owner.ready["bootstrap_servers"]
        assert os.listdir(folder / "data")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_what_cannot_start_ends_with_its_code(folder: Path) -> None:
    own, theirs = socket.socketpair()
    (folder / "file").write_text("")
    line = start_line(folder, "--control-fd", str(theirs.fileno()), settings={"log.dirs": f"{folder}/file/data"})
    with own, theirs, own.makefile("r") as told:
        done = subprocess.run(line, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=PATIENCE_S)
        theirs.close()
        assert (done.returncode, told.read()) == (1, "")
        assert f"{folder}/file/data" in done.stderr

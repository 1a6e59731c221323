"""The command `barnabas start` as a child of this process, and the private channel over which it is told what to do.

    -> {"id": 1, "do": "kill", "broker": 0}
    <- {"id": 1, "ok": true}  or  {"id": 1, "ok": false, "error": "text", "is_invalid": false}
    <- {"event": "ready", ...}, {"event": "ended", "broker": 0, "exit_code": -9}

Rules: standard library only; nothing of the server is imported. The channel is one end of a socket pair: when this process
ends, however it ends, the child notices, ends the brokers, deletes what it was told to, and ends. (Not PR_SET_PDEATHSIG: that
follows the thread that started the child.) Requests are one at a time, from any thread.
Source: `barnabas.supervisor.control`, the other end.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from barnabas.launch import command

REQUEST_TIMEOUT_S = 60.0
END_TIMEOUT_S = 10.0
_READ_BYTES = 64 * 1024


class BrokerRequestError(RuntimeError):
    """A broker, or what looks after it, has not done what it was asked for; the text says why."""


class ControlledProcess:
    """Runs until `close`. `ended` has the exit codes of brokers that ended by themselves, by id."""

    def __init__(self, arguments: Sequence[str], log_path: str) -> None:
        """`arguments` are those of `barnabas`, to which the channel is added; what it prints goes to the file."""
        own, child = socket.socketpair()
        self._socket = own
        self._begun = b""
        self._last_id = 0
        self._asking = threading.Lock()
        self.ended: dict[int, int] = {}
        try:
            with open(log_path, "wb") as log:
                self._process = subprocess.Popen(  # noqa: S603  our own interpreter, no shell
                    command(*arguments, "--control-fd", str(child.fileno())),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(child.fileno(),),
                    start_new_session=True,  # Ctrl-C is handled by this process
                    env={name: value for name, value in os.environ.items() if not name.upper().startswith("KAFKA_")},
                )
        except BaseException:
            own.close()
            raise
        finally:
            child.close()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ready(self, timeout_s: float) -> dict[str, Any] | None:
        """Wait until all brokers serve, and return what the child says of them; None when it has ended, or the time is over."""
        deadline = time.monotonic() + timeout_s  # noqa: TID251  the user's process, not the broker
        with self._asking:
            while (told := self._told(deadline)) is not None:
                if told.get("event") == "ready":
                    return told
        return None

    def ask(self, do: str, **facts: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises ValueError for one that is wrong, BrokerRequestError."""
        with self._asking:
            self._last_id += 1
            line = json.dumps({"id": self._last_id, "do": do, **facts})
            with suppress(OSError):  # the child has ended, as is seen below
                self._socket.sendall(line.encode() + b"\n")
            deadline = time.monotonic() + REQUEST_TIMEOUT_S  # noqa: TID251
            while (told := self._told(deadline)) is not None:
                if told.get("id") == self._last_id:
                    break
        if told is None:
            raise BrokerRequestError(f"{do} was not answered: the log says more")
        if not told["ok"]:
            raise (ValueError if told.get("is_invalid") else BrokerRequestError)(told["error"])
        return told

    def take_events(self) -> None:
        """Take in what the child has told by itself."""
        with self._asking:
            while self._told(time.monotonic()) is not None:  # noqa: TID251
                pass

    def close(self) -> None:
        """End everything at once. Returns when no process is left."""
        self._socket.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # it hangs: its brokers end with it
            self._process.kill()
            self._process.wait()

    def _told(self, deadline: float) -> dict[str, Any] | None:
        """Return the next line of the child; None at its end, and when none comes until the deadline."""
        while b"\n" not in self._begun:
            readable, _, _ = select.select([self._socket], [], [], max(deadline - time.monotonic(), 0))  # noqa: TID251
            data = self._socket.recv(_READ_BYTES) if readable else b""
            if not data:
                return None
            self._begun += data
        line, _, self._begun = self._begun.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        if told.get("event") == "ended":
            self.ended[told["broker"]] = told["exit_code"]
        return told

"""A broker for tests: a child process on a free port, with a data directory of its own, which is deleted at the end.

Rules: standard library only; nothing of the server is imported. The child reports through a pipe when it serves (no
polling), and has the other end of a lifeline: when this process ends, however it ends, the pipe closes and the child
deletes its data and ends too. (Not PR_SET_PDEATHSIG: that follows the thread that started the child.)
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from barnabas.launch import command
from barnabas.properties import write_properties
from barnabas.security import ADMIN, PROTOCOLS, GeneratedSecurity, UnknownUserError, require_protocol
from barnabas.supported import system_refusal

__all__ = ["BrokerStartError", "EmbeddedBroker", "UnknownUserError"]

START_TIMEOUT_S = 30.0
LOG_LINES_SHOWN = 20

# Defaults for tests; `settings` override them.
DEFAULTS: Mapping[str, str] = {
    "broker.id": "0",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


class BrokerStartError(RuntimeError):
    """The broker did not start; the text ends with the last lines of its log."""


class EmbeddedBroker:
    """A running broker between `start` and `close`, or inside `with`.

    `topics` are created before it is ready: names, or names with their number of partitions. `settings` are broker
    settings by their Kafka names; one that does not exist, or has an invalid value, is refused. `security` is "ssl",
    "sasl_plaintext" or "sasl_ssl": the broker has one listener with that protocol, and certificates and passwords that are
    generated for `admin` and for `users` (`barnabas.security`). Safe to use from any thread; not to be shared with a forked
    process. Raises ValueError for `users` without `security`, and for an unknown `security`.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | Iterable[str] = (),
        settings: Mapping[str, object] | None = None,
        *,
        security: str | None = None,
        users: Iterable[str] = (),
        log_level: str = "WARN",
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._protocol, self._users = security, tuple(users)
        if security is None and self._users:
            raise ValueError(f"users need security: one of {', '.join(PROTOCOLS)}")
        if security is not None:
            require_protocol(security)
        self._security: GeneratedSecurity | None = None
        self._log_level = log_level
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._folder = ""
        self._bootstrap_servers = ""
        self._http: str | None = None

    @property
    def http(self) -> str | None:
        """`host:port` of `/metrics`, `/ready` and `/live`; None without `barnabas.http.port` (0 picks a free one)."""
        return self._http

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients."""
        assert self._bootstrap_servers, "the broker is not running"
        return self._bootstrap_servers

    @property
    def security(self) -> GeneratedSecurity:
        """The certificates and passwords of a broker that was asked for with `security`."""
        assert self._security is not None, "the broker is not secured, or not running"
        return self._security

    def client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's clients of confluent-kafka, `bootstrap.servers` among them. Without `security` there
        are no users, and `admin` stands for everybody. Raises UnknownUserError."""
        if self._security is None and user != ADMIN:
            raise UnknownUserError(f"there is no user {user!r}: the broker was made without security")
        secured = {} if self._security is None else self._security.client_settings(user)
        return {"bootstrap.servers": self.bootstrap_servers, **secured}

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """The broker's log so far."""
        with open(self._log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def _log_path(self) -> str:
        return os.path.join(self._folder, "broker.log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Return when topics exist and clients are served. Raises BrokerStartError, also for settings that are refused, without
        leaving anything behind, and on a system that is not supported."""
        assert self._process is None, "the broker is running"
        refusal = system_refusal(sys.platform)
        if refusal is not None:
            raise BrokerStartError(f"barnabas {refusal}")
        self._folder = tempfile.mkdtemp(prefix="barnabas-")
        try:
            self._launch()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the broker immediately and delete its data. Closing twice is no error."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""
        self._bootstrap_servers, self._http = "", None
        self._security = None

    def _secured_settings(self) -> dict[str, str]:
        """Generate what the broker is secured with; return its settings. Only an authorizer knows super users."""
        if self._protocol is None:
            return {}
        folder = os.path.join(self._folder, "security")
        os.mkdir(folder, 0o700)
        self._security = GeneratedSecurity(self._protocol, folder, self._users)
        settings = {"listeners": f"{self._protocol.upper()}://localhost:0", **self._security.broker_settings()}
        if not self._settings.get("authorizer.class.name"):
            del settings["super.users"]
        return settings

    def _launch(self) -> None:
        properties = os.path.join(self._folder, "server.properties")
        settings = {
            "log.dirs": os.path.join(self._folder, "data"), **DEFAULTS, **self._secured_settings(), **self._settings,
        }  # fmt: skip
        write_properties(properties, settings)
        lifeline_end, self._lifeline = os.pipe()
        ready, ready_end = os.pipe()
        arguments = ["start", properties, "--log-level", self._log_level, "--no-banner", "--refuse-unknown"]
        arguments += ["--ready-fd", str(ready_end), "--lifeline-fd", str(lifeline_end), "--discard", self._folder]
        for name, partitions in self._topics.items():
            arguments += ["--topic", f"{name}:{partitions}"]
        try:
            with open(self._log_path, "wb") as log:
                self._process = subprocess.Popen(  # noqa: S603  our own interpreter, no shell
                    command(*arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(ready_end, lifeline_end),
                    start_new_session=True,  # Ctrl-C is handled by this process
                    env={name: value for name, value in os.environ.items() if not name.upper().startswith("KAFKA_")},
                )
        finally:
            os.close(ready_end)
            os.close(lifeline_end)
        try:
            told = _read_line(ready, self._start_timeout_s)
        finally:
            os.close(ready)
        if not told:
            raise BrokerStartError(f"the broker did not start:\n{self._last_log_lines()}")
        facts = json.loads(told)
        self._bootstrap_servers, self._http = facts["bootstrap_servers"], facts["http"]

    def _last_log_lines(self) -> str:
        return "\n".join(self.log.splitlines()[-LOG_LINES_SHOWN:])


def _text(value: object) -> str:
    """Return a Python value as text for a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_line(pipe: int, timeout_s: float) -> bytes:
    """Read until the end of a line; returns nothing if the writer ends before, or at the timeout."""
    line = b""
    deadline = time.monotonic() + timeout_s  # noqa: TID251  the user's process, not the broker
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([pipe], [], [], max(deadline - time.monotonic(), 0))  # noqa: TID251
        chunk = os.read(pipe, 4096) if readable else b""
        if not chunk:
            return b""
        line += chunk
    return line

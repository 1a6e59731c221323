"""Brokers for tests: child processes on free ports, with data directories of their own, which are deleted at the end.

Rules: standard library only; nothing of the server is imported. One process starts the brokers and looks after them, over a
private channel (`barnabas.controlled_process`): when this process ends, however it ends, so do they, and their data is deleted.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from barnabas.controlled_process import BrokerRequestError, ControlledProcess
from barnabas.properties import write_properties
from barnabas.security import (
    ADMIN,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    GeneratedSecurity,
    UnknownUserError,
    require_protocol,
    require_users,
)
from barnabas.supported import system_refusal

__all__ = ["BrokerRequestError", "BrokerStartError", "EmbeddedBroker", "UnknownUserError"]

START_TIMEOUT_S = 30.0
LOG_LINES_SHOWN = 20
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"

# Defaults for tests; `settings` override them.
DEFAULTS: Mapping[str, str] = {
    "broker.id": "0",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
# Of several brokers: topics have replicas, and a broker that was killed is replaced as leader after so long.
SESSION_TIMEOUT_MS = 3_000

Acl = str | Sequence[str]
"""`alice read topic orders`, or the words of it."""


class BrokerStartError(RuntimeError):
    """The brokers did not start; the text ends with the last lines of their log."""


class EmbeddedBroker:
    """A running broker, or a cluster of `brokers`, between `start` and `close`, or inside `with`.

    `topics` are created before it is ready: names, or names with their number of partitions. `settings` are broker
    settings by their Kafka names; one that does not exist, or has an invalid value, is refused. With several brokers, topics
    have up to three replicas unless a setting says otherwise.

    `tls`: clients connect over TLS, with a generated certificate. `users` log in with passwords: their names, or their names
    with passwords, which are generated otherwise. `acls`: what users may do, in lines such as "alice read topic orders"
    (`security.acls.words`), or True for nothing yet; the users in them need not be named once more. The user `admin` is always
    there, and may do everything. Each of the three works with and without the others. `security` names the protocol in their
    place: "ssl", by which users have certificates and no passwords, "sasl_plaintext" or "sasl_ssl".

    Safe to use from any thread; not to be shared with a forked process. Raises ValueError for what does not go together, an
    unknown `security`, and a name that a user cannot have.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | Iterable[str] = (),
        settings: Mapping[str, object] | None = None,
        *,
        brokers: int = 1,
        tls: bool = False,
        users: Iterable[str] | Mapping[str, str] = (),
        acls: bool | Iterable[Acl] = False,
        security: str | None = None,
        log_level: str = "WARN",
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: at least 1")
        self._count = brokers
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._has_authorizer = acls is not False
        self._acls = (
            [] if isinstance(acls, bool) else [each if isinstance(each, str) else " ".join(each) for each in acls]
        )
        self._passwords = dict(users) if isinstance(users, Mapping) else {}
        self._users = [*users, *(user for acl in self._acls for user in _users_of(acl))]
        require_users(self._users, self._passwords)
        self._protocol = _protocol(security, tls=tls, has_users=bool(self._users) or self._has_authorizer)
        self._security: GeneratedSecurity | None = None
        self._log_level = log_level
        self._start_timeout_s = start_timeout_s
        self._process: ControlledProcess | None = None
        self._folder = ""
        self._bootstrap_servers = ""
        self._http_address: str | None = None
        self._process_ids: dict[int, int] = {}
        self._changed: dict[int, str] = {}
        self._has_faults = False

    # --- what is there ---

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not closed."""
        return self._process is not None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, separated by commas, for clients."""
        assert self._bootstrap_servers, "the broker is not running"
        return self._bootstrap_servers

    @property
    def http_address(self) -> str | None:
        """`host:port` of `/metrics`, `/ready` and `/live`, of all brokers together; None without `barnabas.http.port` (0 picks
        a free one)."""
        return self._http_address

    @property
    def http(self) -> str | None:
        """The same as `http_address`."""
        return self._http_address

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of the brokers, also of those that do not run now."""
        return tuple(self._process_ids)

    @property
    def process_ids(self) -> Mapping[int, int]:
        """The id of each broker's process, by broker id: of the last one where it does not run now."""
        return self._process_ids

    @property
    def process_id(self) -> int:
        """The id of the process, of one broker."""
        return self._process_ids[self._id(None)]

    @property
    def log(self) -> str:
        """The log so far, of all brokers. Each line begins with the broker."""
        with open(self._log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def security(self) -> GeneratedSecurity:
        """The certificates and passwords of a broker that has users or TLS."""
        assert self._security is not None, "the broker is not secured, or not running"
        return self._security

    # --- settings of clients ---

    def client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the settings of a user's clients of confluent-kafka, `bootstrap.servers` among them. Without users and TLS
        `admin` stands for everybody. Raises UnknownUserError."""
        secured = {} if self._is_open_to(user) else self.security.client_settings(user)
        return {"bootstrap.servers": self.bootstrap_servers, **secured}

    def java_client_settings(self, user: str = ADMIN) -> dict[str, str]:
        """Return the same for clients in Java, and for the files of `--command-config`. Raises UnknownUserError."""
        secured = {} if self._is_open_to(user) else self.security.java_settings(user)
        return {"bootstrap.servers": self.bootstrap_servers, **secured}

    def python_client_settings(self, user: str = ADMIN) -> dict[str, Any]:
        """Return the same as arguments of clients of kafka-python and aiokafka. Raises UnknownUserError."""
        secured = {} if self._is_open_to(user) else self.security.python_settings(user)
        return {"bootstrap_servers": self.bootstrap_servers.split(","), **secured}

    def _is_open_to(self, user: str) -> bool:
        """Return whether nobody logs in. Raises UnknownUserError."""
        if self._security is None and user != ADMIN:
            raise UnknownUserError(f"there is no user {user!r}: the broker was made without users")
        return self._security is None

    # --- life ---

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Return when topics exist and clients are served. Raises BrokerStartError, also for settings that are refused, and
        on a system that is not supported, and ValueError for an ACL that is none, without leaving anything behind."""
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
        """End the brokers immediately and delete their data. Closing twice is no error."""
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""
        self._bootstrap_servers, self._http_address = "", None
        self._security = None
        self._process_ids, self._changed, self._has_faults = {}, {}, False

    # --- what happens to brokers ---

    def kill(self, broker: int | None = None) -> None:
        """End a broker as `kill -9` does. `broker` is its id; of one broker it need not be named, here and below."""
        self._change("kill", broker)

    def stop(self, broker: int | None = None) -> None:
        """Stop a broker in order, and return when it has stopped."""
        self._change("stop", broker)

    def restart(self, broker: int | None = None) -> None:
        """Start a broker again, on its ports and with its data; one that runs is stopped in order first. Returns when it
        serves. Its injected faults are gone."""
        broker_id = self._id(broker)
        row = self._running.ask("restart", broker=broker_id)
        self._process_ids[broker_id] = row["process_id"]
        self._running.ended.pop(broker_id, None)
        self._changed.pop(broker_id, None)
        self._await_metadata()

    def pause(self, broker: int | None = None) -> None:
        """Let a broker hang: it keeps its connections and does nothing, until `resume`."""
        self._change("pause", broker)

    def resume(self, broker: int | None = None) -> None:
        """Let a broker go on that was paused. Returns when the others know it."""
        broker_id = self._id(broker)
        self._running.ask("resume", broker=broker_id)
        self._changed.pop(broker_id, None)
        self._await_metadata()

    def restore(self) -> None:
        """Undo the above: every broker runs and no fault is in force. Data stays."""
        process = self._running
        process.take_events()
        for broker_id in self.broker_ids:
            if self._changed.get(broker_id) == "pause":
                self.resume(broker_id)
            elif broker_id in self._changed or broker_id in process.ended:
                self.restart(broker_id)
        if self._has_faults:
            self.clear_faults()

    # --- faults and topics ---

    def inject(
        self,
        api: str,
        error: str | None = None,
        delay_ms: int = 0,
        times: int | None = 1,
        broker: int | None = None,
        *,
        disconnect: bool = False,
    ) -> None:
        """Change what happens to the next requests of an API, such as "Produce" or "JoinGroup"; return when it is in force.

        With `error`, such as "NOT_LEADER_OR_FOLLOWER", they are refused; with `disconnect` their connection is closed; both
        after `delay_ms`. With `delay_ms` alone they are carried out late, and hold back what their client sends behind them. So
        it goes for `times` requests of each broker, 0 or None: until `clear_faults`. `broker` is an id; None: all of them.
        Faults of an API follow each other. Fetches of followers are "FetchFollower"; what else brokers ask each other counts as
        if clients did. Raises ValueError, with what may be meant, for an API or an error that there is not.
        """
        self._has_faults = True
        fault = {"api": api, "error": error, "delay_ms": delay_ms, "times": times, "disconnect": disconnect}
        self._running.ask("inject", broker=None if broker is None else self._id(broker), **fault)

    def clear_faults(self) -> None:
        """End all injected faults. Requests that are late stay so."""
        self._running.ask("clear_faults", broker=None)
        self._has_faults = False

    def faults_left(self) -> int:
        """Return for how many requests there are faults still, of all brokers that run, without those that stay until they are
        cleared. 0: every injected fault has happened."""
        return sum(answer["left"] for answer in self._running.ask("faults_left", broker=None)["brokers"])

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, and return when it can be written to. `settings` are those of the topic; without `replicas` it has
        `default.replication.factor`. Needs no rights. Raises BrokerRequestError with Kafka's error."""
        own = {setting: _text(value) for setting, value in (settings or {}).items()}
        self._running.ask("create_topic", name=name, partitions=partitions, replicas=replicas, settings=own)
        self._await_metadata([name])

    # --- inside ---

    @property
    def _running(self) -> ControlledProcess:
        assert self._process is not None, "the broker is not running"
        return self._process

    def _id(self, broker: int | None) -> int:
        """Return the id of a broker. Raises ValueError."""
        assert self._process is not None, "the broker is not running"
        there = " and ".join(filter(None, (", ".join(map(str, self.broker_ids[:-1])), str(self.broker_ids[-1]))))
        if broker is None:
            if len(self.broker_ids) > 1:
                raise ValueError(f"name a broker: there are {there}")
            return self.broker_ids[0]
        if broker not in self._process_ids:
            raise ValueError(f"there is no broker {broker}: there {'are' if self._count > 1 else 'is'} {there}")
        return broker

    def _change(self, what: str, broker: int | None) -> None:
        broker_id = self._id(broker)
        self._running.ask(what, broker=broker_id)
        self._changed[broker_id] = what

    @property
    def _log_path(self) -> str:
        return os.path.join(self._folder, "broker.log")

    def _cluster_settings(self) -> dict[str, str]:
        """Return what several brokers have beside `DEFAULTS`."""
        if self._count == 1:
            return {}
        replicas = min(self._count, 3)
        return {
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(replicas - 1, 1)),
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        }

    def _secured_settings(self) -> dict[str, str]:
        """Generate what the broker is secured with; return its settings. Only an authorizer knows super users."""
        if self._protocol is None:
            return {}
        folder = os.path.join(self._folder, "security")
        os.mkdir(folder, 0o700)
        self._security = GeneratedSecurity(self._protocol, folder, self._users, passwords=self._passwords)
        settings = {"listeners": f"{self._protocol.upper()}://localhost:0", **self._security.broker_settings()}
        if self._has_authorizer:
            settings["authorizer.class.name"] = AUTHORIZER
        if not {**settings, **self._settings}.get("authorizer.class.name"):
            del settings["super.users"]
        return settings

    def _launch(self) -> None:
        properties = os.path.join(self._folder, "server.properties")
        settings = {
            "log.dirs": os.path.join(self._folder, "data"), **DEFAULTS, **self._cluster_settings(), **self._secured_settings(),
            **self._settings,
        }  # fmt: skip
        write_properties(properties, settings)
        arguments = ["start", properties, "--log-level", self._log_level, "--no-banner", "--refuse-unknown"]
        arguments += ["--discard", self._folder]
        if self._count > 1:
            arguments += ["--brokers", str(self._count)]
        for name, partitions in self._topics.items():
            arguments += ["--topic", f"{name}:{partitions}"]
        self._process = ControlledProcess(arguments, self._log_path)
        facts = self._process.ready(self._start_timeout_s)
        if facts is None:
            raise BrokerStartError(f"the broker did not start:\n{self._last_log_lines()}")
        self._bootstrap_servers, self._http_address = facts["bootstrap_servers"], facts["http"]
        self._process_ids = {row["broker"]: row["process_id"] for row in facts["brokers"]}
        self._await_metadata(list(self._topics))
        if self._acls:
            for broker_id in self._process_ids:  # in force on each when it answers
                self._process.ask("create_acls", broker=broker_id, acls=self._acls)

    def _await_metadata(self, topics: Sequence[str] = ()) -> None:
        """Return when every broker that runs knows the others, and the topics: clients ask any of them."""
        if self._count > 1:
            ended = self._running.ended
            running = [each for each in self.broker_ids if each not in self._changed and each not in ended]
            self._running.ask("await_metadata", broker=None, topics=topics, brokers=running)

    def _last_log_lines(self) -> str:
        return "\n".join(self.log.splitlines()[-LOG_LINES_SHOWN:])


def _protocol(security: str | None, *, tls: bool, has_users: bool) -> str | None:
    """Return the protocol of the listener; None: it is open to everybody. Raises ValueError."""
    if security is not None:
        require_protocol(security)
        if tls:
            raise ValueError("security says the protocol: tls cannot be given as well")
        return security
    if has_users:
        return SASL_SSL if tls else SASL_PLAINTEXT
    return SSL if tls else None


def _users_of(acl: str) -> list[str]:
    """Return the user in an ACL: none if it is for everybody, or malformed, which the broker says."""
    words = acl.split()
    return [word for word in words[words[:1] == ["deny"] :][:1] if word != "*"]


def _text(value: object) -> str:
    """Return a Python value as text for a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)

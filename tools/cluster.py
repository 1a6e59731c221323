"""The cluster that a command works on: its options, and clients that connect when they are first used.

Rules: whoever cannot log in, or finds nobody at the address, is told so at once, not when a request has timed out. What waits
for the cluster is watched (`tools.waiting`), so that it is told why.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for_futures
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from confluent_kafka import KafkaError, KafkaException

from client.settings.command_line import DEFAULTS, PROFILE_VARIABLE
from runtime.clock import Clock, SystemClock
from tools.client_log import CLIENT_LOG
from tools.cluster_access import ClusterAccess
from tools.failures import Unreachable, failure_of
from tools.output import STATUS, Output
from tools.waiting.told_client import told_client
from tools.waiting.waits import Waits

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from kafka.admin import KafkaAdminClient

T = TypeVar("T")
K = TypeVar("K")

UNREACHABLE_AFTER_MS = 3_000
"""Whoever has not reached any broker by then is told so; a broker that is just starting may take that long."""
ANY_BROKER_AFTER_MS = 500
"""The client asks the controller who is there; when that one hangs, any other broker has to do."""
TIMED_OUT: int = KafkaError._TIMED_OUT  # noqa: SLF001  the library's name for its public code
CHANGE_TIMEOUT_S = 60.0
"""For requests that create or delete: ten thousand partitions take a while."""
_POLL_MS = 50


class Cluster:
    """Made for one command; clients for records belong to whoever asks for them."""

    def __init__(self, settings: ClusterAccess, clock: Clock | None = None, options: tuple[str, ...] = ()) -> None:
        """`options` are those of the command line that named the cluster: a command that is shown needs them, too."""
        self.settings = settings
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.cluster_id: str | None = None
        self.brokers: dict[int, str] = {}
        """The addresses of the brokers that there were when this command connected."""
        self.waits = Waits(settings, self.clock, STATUS, lambda: self.brokers)
        self.group: str | None = None
        """The group that the command is about."""
        self._admin: AdminClient | None = None
        self._other_admin: KafkaAdminClient | None = None
        self._refusal: KafkaError | None = None
        self._is_unreachable = False

    @property
    def admin(self) -> AdminClient:
        """The client for all but records. Raises KafkaException, Unreachable."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient  # noqa: PLC0415

            timeout = {"socket.timeout.ms": self.settings.timeout_ms}  # also that of each request
            admin = AdminClient(self.settings.for_records() | timeout | {"error_cb": self._on_error}, logger=CLIENT_LOG)
            with self.waits.connecting():
                self._connect(admin)
            self._admin = admin
        return self._admin

    @property
    def other_admin(self) -> KafkaAdminClient:
        """The client for what librdkafka has no call for: reassignments, log directories, transactions, quotas. Raises
        KafkaException, Unreachable, OtherClientError."""
        if self._other_admin is None:
            self.admin  # noqa: B018  says at once that nobody answers, and why
            logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its errors are raised as well
            with self.waits.answer():
                self._other_admin = self._new_other_admin()
        return told_client(self._other_admin, lambda: self.waits.answer(self.group))

    def _new_other_admin(self) -> KafkaAdminClient:
        """Its library begins with any server and waits for that one alone, which may hang: then each is tried."""
        from kafka.admin import KafkaAdminClient  # noqa: PLC0415  a tenth of a second
        from kafka.errors import KafkaTimeoutError  # noqa: PLC0415

        settings = self.settings.for_admin()
        servers = settings["bootstrap_servers"]
        tries = [servers, *([server] for server in servers)] if len(servers) > 1 else []
        for tried in tries:
            with contextlib.suppress(KafkaTimeoutError):  # the last one has all the time there is
                begin = {"bootstrap_servers": tried, "bootstrap_timeout_ms": UNREACHABLE_AFTER_MS}
                return KafkaAdminClient(**settings | begin)
        return KafkaAdminClient(**settings)

    def forget_other_admin(self) -> None:
        """Have a new client at the next use: one that has lost the controller goes on asking the broker that it was."""
        self._close_other_admin()
        self._other_admin = None

    def close(self) -> None:
        self.waits.close()
        self._close_other_admin()

    def _close_other_admin(self) -> None:
        if self._other_admin is not None:
            self._other_admin.close()

    def result(self, future: Future[T]) -> T:
        """Wait for an answer. Raises KafkaException."""
        try:
            with self.waits.answer(self.group):
                return future.result(self.settings.timeout_ms / 1000 + 1)
        except FutureTimeout:
            raise KafkaException(KafkaError(TIMED_OUT)) from None

    def results(self, futures: Mapping[K, Future[T]], timeout_s: float = 0) -> dict[K, T | KafkaError]:
        """Wait for answers about several things, all together no longer than for one, or `timeout_s`; what failed has its
        error."""
        found: dict[K, T | KafkaError] = {}
        with self.waits.answer(self.group):
            wait_for_futures(futures.values(), (timeout_s or self.settings.timeout_ms / 1000) + 1)
        for key, future in futures.items():
            try:
                found[key] = future.result(0)
            except FutureTimeout:
                found[key] = KafkaError(TIMED_OUT)
            except KafkaException as error:
                found[key] = error.args[0]
        return found

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        from confluent_kafka import Consumer  # noqa: PLC0415

        return Consumer(self.settings.for_records() | self.waits.callbacks() | dict(settings), logger=CLIENT_LOG)

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer  # noqa: PLC0415

        return Producer(self.settings.for_records() | self.waits.callbacks() | dict(settings), logger=CLIENT_LOG)

    def _connect(self, admin: AdminClient) -> None:
        """Wait until a broker has answered. Raises KafkaException when it refuses, Unreachable."""
        started_ms = self.clock.monotonic_ms()
        answer = admin.describe_cluster(request_timeout=self.settings.timeout_ms / 1000)
        while True:
            try:
                found = answer.result(_POLL_MS / 1000)
                self._know(found.cluster_id, found.nodes)
            except FutureTimeout:
                admin.poll(0)  # calls `_on_error`
                waited_ms = self.clock.monotonic_ms() - started_ms
                if self._refusal is not None:
                    raise KafkaException(self._refusal) from None
                if (self._is_unreachable or self.waits.is_hopeless) and waited_ms > UNREACHABLE_AFTER_MS:
                    raise Unreachable from None
                if waited_ms > self.settings.timeout_ms + 1000:
                    raise Unreachable from None
                if waited_ms > ANY_BROKER_AFTER_MS and not self._is_unreachable:
                    with contextlib.suppress(KafkaException):  # the controller may still answer
                        listed = admin.list_topics(timeout=ANY_BROKER_AFTER_MS / 1000)
                        self._know(listed.cluster_id, listed.brokers.values())
                        return
            except KafkaException as error:
                if error.args[0].code() != TIMED_OUT:
                    raise
                raise Unreachable from error  # somebody takes connections, and does not answer
            else:
                return

    def _know(self, cluster_id: str | None, nodes: Iterable[Any]) -> None:
        self.cluster_id = cluster_id
        self.brokers = {node.id: f"{node.host}:{node.port}" for node in nodes}

    def _on_error(self, error: KafkaError) -> None:
        """Remember why no broker is reached."""
        if error.name() in ("_AUTHENTICATION", "_SSL"):
            self._refusal = error
        elif error.name() == "_ALL_BROKERS_DOWN":
            self._is_unreachable = True


def _options_of(context: click.Context) -> tuple[str, ...]:
    """Return the options that name the cluster; a profile of the environment is one of the next command, too."""
    found: list[str] = []
    for name in ("bootstrap_server", "command_config", "client_config", "profile"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "command-config" if name == "client_config" else name.replace("_", "-")
            found += (f"--{option}", str(context.params[name]))
    return tuple(found)


def cluster_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a cluster and `--json`; its function is called with `cluster` and `output`."""

    @functools.wraps(function)
    def run(
        *,
        bootstrap_server: str | None,
        command_config: str | None,
        client_config: str | None,
        profile: str | None,
        as_json: bool,
        **others: Any,
    ) -> Any:
        servers, cluster = bootstrap_server, None
        try:
            settings = ClusterAccess.read(command_config or client_config, profile, bootstrap_server)
            for warning in settings.warnings:
                click.echo(f"barnabas: warning: {warning}", err=True)
            servers, cluster = (
                settings.bootstrap_servers,
                Cluster(settings, options=_options_of(click.get_current_context())),
            )
            cluster.group = others.get("group") or next(iter(others.get("groups") or ()), None)
            return function(cluster=cluster, output=Output(as_json=as_json), **others)
        except Exception as error:
            more = () if cluster is None else (cluster.waits.why_unreached, cluster.waits.told)
            failure = failure_of(error, servers, *more)
            if failure is None:
                raise
            raise failure from error
        finally:
            if cluster is not None:
                cluster.close()

    for option in reversed((
        click.option("--bootstrap-server", "--bootstrap-servers", "-b", "bootstrap_server", metavar="HOST:PORT[,...]",
                     help=f"brokers to ask first [{DEFAULTS.bootstrap_servers}]"),
        click.option("--command-config", metavar="FILE", help="properties of a client, as of the kafka-*.sh tools"),
        click.option("--consumer.config", "--producer.config", "--admin.config", "client_config", hidden=True,
                     help="other names of --command-config"),
        click.option("--profile", metavar="NAME", envvar=PROFILE_VARIABLE, help="a file in ~/.config/barnabas"),
        click.option("--json", "as_json", is_flag=True, help="print JSON"),
    )):  # fmt: skip
        run = option(run)
    return run

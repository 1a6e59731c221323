"""The cluster that a command works on: its options, and clients that connect when they are first used.

Rules: whoever cannot log in, or finds no broker at the address, is told so at once, not when a request has timed out. What
waits for the cluster is watched (`tools.waiting`), so that people are told why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from client.admin.brokers import cluster as describe_cluster
from client.admin.steps import Steps
from client.blocking.cluster_client import ClusterClient
from client.errors import ClusterUnavailable
from client.reach import is_silent
from client.settings.command_options import cluster_options
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataResponse
from runtime.clock import Clock, SystemClock
from runtime.command_line.output import STATUS, Output
from tools.client_log import CLIENT_LOG
from tools.cluster_access import ClusterAccess
from tools.failures import Unreachable, failure_of
from tools.waiting.waits import Waits

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

T = TypeVar("T")

UNREACHABLE_AFTER_MS = 3_000
"""Whoever has not reached any broker by then is told so; a broker that is just starting may take that long."""
CHANGE_TIMEOUT_MS = 60_000
"""For requests that create or delete: ten thousand partitions take a while."""


class Cluster:
    """Made for one command; clients for records belong to whoever asks for them."""

    def __init__(self, settings: ClusterAccess, clock: Clock | None = None, options: tuple[str, ...] = ()) -> None:
        """`options` are those of the command line that named the cluster: a command that is shown needs them, too."""
        self.settings = settings
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.brokers: dict[int, str] = {}
        """The addresses of the brokers that there were when this command connected."""
        self.waits = Waits(settings, self.clock, STATUS, lambda: self.brokers)
        self.group: str | None = None
        """The group that the command is about."""
        self._client: ClusterClient | None = None
        self._cluster_id: str | None = None

    @property
    def client(self) -> ClusterClient:
        """The client for all but records, which has reached a broker. Raises Unreachable, LoginRefused, SettingsError."""
        if self._client is None:
            timeout_ms = self.settings.timeout_ms
            client = ClusterClient(replace(self.settings.client, api_timeout_ms=timeout_ms))
            with self.waits.connecting():
                self._know(self._first_answer(client))
            self._client = client
        return self._client

    @property
    def cluster_id(self) -> str | None:
        self.connect()
        return self._cluster_id

    def connect(self) -> None:
        """Reach a broker, or say at once that none answers, and why. Raises Unreachable, LoginRefused, SettingsError."""
        assert self.client is not None

    def run(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Carry out what an operation asks. Raises KafkaError, also when the time is over, and what `client` raises."""
        client = self.client
        try:
            with self.waits.answer(self.group):
                return client.run(steps, timeout_ms)
        except ClusterUnavailable as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    def close(self) -> None:
        self.waits.close()
        if self._client is not None:
            self._client.close()

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        from confluent_kafka import Consumer  # noqa: PLC0415

        return Consumer(self.settings.for_records() | self.waits.callbacks() | dict(settings), logger=CLIENT_LOG)

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer  # noqa: PLC0415

        return Producer(self.settings.for_records() | self.waits.callbacks() | dict(settings), logger=CLIENT_LOG)

    def _first_answer(self, client: ClusterClient) -> MetadataResponse:
        """Raises Unreachable, also where a broker takes connections and does not answer; LoginRefused, SettingsError."""
        left_ms = self.settings.timeout_ms
        for limit_ms in (min(UNREACHABLE_AFTER_MS, left_ms), left_ms - UNREACHABLE_AFTER_MS):
            try:
                return client.run(describe_cluster(), limit_ms)
            except ClusterUnavailable as error:
                why = self.waits.why_unreached()
                if left_ms <= UNREACHABLE_AFTER_MS or (why is not None and not is_silent(why)):
                    raise Unreachable from error
        raise Unreachable

    def _know(self, found: MetadataResponse) -> None:
        self._cluster_id = found.cluster_id
        self.brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in found.brokers}


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

    return cluster_options("--consumer.config", "--producer.config", "--admin.config")(run)

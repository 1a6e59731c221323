"""`barnabas start --brokers N`, and a start with other processes or under another program: from options to a supervisor.

    settings -> directories locked -> layout -> settings of each broker -> ports free -> a lone broker's data moved -> server
    imported -> supervisor

Rules: whatever refuses the start does so before a process exists, and before data has moved. The settings of each broker come
from the same sources as those of a start without `--brokers`, and are kept for its restarts. What all brokers need is imported
before the first fork, so that they start quickly and share its memory.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.supervisor.banner import Row
from barnabas.supervisor.child import Inherited
from barnabas.supervisor.companion_process import become_companion, companion_properties, require_web
from barnabas.supervisor.directories import DataDirectories
from barnabas.supervisor.layout import (
    DECIDED,
    BrokerPlace,
    CompanionPlace,
    Layout,
    first_broker_id,
    layout_of_many,
    layout_of_one,
)
from barnabas.supervisor.merged_log import Lines, LogOutput
from barnabas.supervisor.ports import ReservedPorts, require_free
from barnabas.supervisor.supervised_process import SupervisedProcess
from barnabas.supervisor.supervisor import Plan, Supervisor
from broker.commands.settings_sources import given_overrides, settings_of
from broker.composition import listener_plans
from broker.network.listening.listeners import ListenerPlan
from broker.observability.logging_setup import report_refusal, set_up_logging
from broker.start_options import NO_DESCRIPTOR, VERSION, StartOptions
from config.broker import BrokerSettings
from config.companion import RELAY, WEB
from config.errors import ConfigError
from config.relay import require_login
from runtime.clock import SystemClock
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.log_setup import AUTO
from runtime.process.os_cores import usable_cores
from runtime.process.os_descriptors import fill_standard_descriptors
from storage.directories.log_directory import DirectoryRefused, MetaProperties, check_identity

if TYPE_CHECKING:
    from broker.cluster.topics_at_start import TopicAtStart

EXIT_FAILED = 1
# Sessions end at a tick: how much longer than its timeout a broker that was killed counts as alive.
STORE_TICK_MS = 500
SESSION_TIMEOUT_MAX_MS = 60_000
# A relay ends its transactions, and leaves its group, for which it needs the brokers.
RELAY_STOP_S = 10.0
_LOG_NAMES = ("barnabas.log.level", "barnabas.log.format")


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What was asked for. `count` None: a lone broker, 0: one a core. `of_one_broker` are the values of --override-broker."""

    properties: str | None
    overrides: Sequence[str]
    environment: Mapping[str, str]
    count: int | None
    of_one_broker: Sequence[str] = ()
    store_port: int = 0
    topics: tuple[TopicAtStart, ...] = ()
    show_banner: bool = True
    control_fd: int = NO_DESCRIPTOR
    discard: str | None = None
    began_ms: int = 0
    ready_fd: int = NO_DESCRIPTOR


def start_supervised(request: StartRequest, settings: BrokerSettings) -> int:
    """Run the brokers until a signal, and return the exit code. `settings` are those that all have. Raises ConfigError."""
    fill_standard_descriptors()
    ports = ReservedPorts()
    try:
        if request.count is None:
            layout = layout_of_one(settings, listener_plans(settings), free_port=ports.free_port)
            return _run(request, settings, layout, [])
        return _start_many(request, settings, request.count or usable_cores(), ports)
    except (DirectoryRefused, OSError) as error:
        report_refusal(reason_of(error) if isinstance(error, OSError) else str(error))
        return EXIT_FAILED
    finally:
        ports.close()


def _start_many(request: StartRequest, settings: BrokerSettings, count: int, ports: ReservedPorts) -> int:
    """Raises ConfigError, DirectoryRefused, OSError."""
    directories = DataDirectories(
        OsFileSystem(), settings.log_directories, has_store=settings.zookeeper_connect is None
    )
    directories.take(count)
    try:
        stored = directories.first_broker()
        _refuse_other_id(settings, stored)
        layout = layout_of_many(
            settings, listener_plans(settings), count, first_id=stored.broker_id, store_port=request.store_port,
            host_name=socket.gethostname(), free_port=ports.free_port,
        )  # fmt: skip
        require_free(layout.ports)
        moves = directories.moves()
        directories.move(moves)
        return _run(request, settings, layout, hints_about_moved(layout) if moves else [])
    finally:
        directories.release()


def hints_about_moved(layout: Layout) -> list[str]:
    """Return what to tell about the data of a lone broker that has moved."""
    ids = ",".join(str(place.broker_id) for place in layout.brokers)
    replicas = min(len(layout.brokers), 3)
    return [
        f"moved     to {', '.join(layout.brokers[0].log_directories)}; its topics have the replicas that they had, more by:",
        f"          barnabas partitions plan --brokers {ids} --replication-factor {replicas} TOPIC > plan.json",
        "          barnabas partitions reassign plan.json --execute",
    ]


def _refuse_other_id(settings: BrokerSettings, stored: MetaProperties) -> None:
    """Refuse a broker.id that is not that of the data, before anything moves. Raises DirectoryRefused."""
    check_identity(stored, first_broker_id(settings, stored.broker_id), stored.cluster_id or "", "this data")


def _run(request: StartRequest, settings: BrokerSettings, layout: Layout, hints: Sequence[str]) -> int:
    """Raises ConfigError, OSError."""
    own = of_one_broker(request.of_one_broker, layout)
    each = [
        settings_of(
            request.properties, [*request.overrides, *_as_overrides(place), *own[place.broker_id]], request.environment
        )
        for place in layout.brokers
    ]
    clock = SystemClock()
    first = listener_plans(each[0])[0]
    properties = [_properties(place, layout, each[0], first) for place in layout.companions]
    plan = Plan(
        http=layout.http,
        pages=[place.http for place in layout.brokers if place.http is not None],
        directories=settings.log_directories,
        hints=hints,
        show_banner=request.show_banner,
        has_login=first.security_protocol != "PLAINTEXT",
        beside=[_row(place) for place in layout.companions],
        page=_page(layout, settings),
        ready_fd=request.ready_fd,
        control_fd=request.control_fd,
        discard=request.discard,
        began_ms=request.began_ms,
    )
    supervisor = Supervisor(plan, clock)
    store = _store(layout, settings, _lines(request, layout, "store", settings), supervisor.log)
    with _LoggingThrough(supervisor.log):
        if store is not None:
            supervisor.begin_store(store)  # which opens its file while the server is loaded
        members = [
            _broker(request, layout, index, broker_settings, settings, supervisor.log)
            for index, broker_settings in enumerate(each)
        ]
        beside = [
            _companion(place, layout, own, settings, supervisor.log)
            for place, own in zip(layout.companions, properties, strict=True)
        ]
        return supervisor.run(members, beside)


def _as_overrides(place: BrokerPlace) -> list[str]:
    return [f"{name}={value}" for name, value in place.overrides.items()]


def of_one_broker(options: Sequence[str], layout: Layout) -> dict[int, list[str]]:
    """Return the overrides of each broker, of options `ID:NAME=VALUE`. Raises ConfigError."""
    own: dict[int, list[str]] = {place.broker_id: [] for place in layout.brokers}
    for option in options:
        number, colon, override = option.partition(":")
        if not colon or not number.strip().isdecimal():
            raise ConfigError(f"--override-broker {option} is not of the form id:name=value")
        if int(number) not in own:
            raise ConfigError(
                f"--override-broker {option}: there is no broker {number}; there are {', '.join(map(str, own))}"
            )
        decided = DECIDED & given_overrides([override]).keys()
        if decided:
            raise ConfigError(
                f"--override-broker {option}: {', '.join(decided)} follows from what all brokers are given"
            )
        own[int(number)].append(override)
    return own


def _broker(
    request: StartRequest, layout: Layout, index: int, own: BrokerSettings, common: BrokerSettings, log: LogOutput
) -> SupervisedProcess:
    import_server(own)
    from broker import process  # noqa: PLC0415  the server is loaded once all settings are known to be good

    place = layout.brokers[index]
    has_own_log = any(own.value(name) != common.value(name) for name in _LOG_NAMES)

    def run(inherited: Inherited) -> int:
        _log_to_standard_error()
        if has_own_log:
            set_up_logging(own.barnabas_log_level, own.barnabas_log_format)
        options = StartOptions(
            topics=request.topics if index == 0 else (),
            show_banner=False,
            ready_fd=inherited.ready_fd,
            owner_fd=inherited.owner_fd,
        )
        try:
            return process.run(own, options, SystemClock().monotonic_ms() if member.has_served else request.began_ms)
        except ConfigError as error:
            report_refusal(error.line)
            return 2

    lines = _lines(request, layout, place.name, common)
    member = SupervisedProcess(place.name, run, lines, log, broker_id=place.broker_id)
    return member


def _store(layout: Layout, settings: BrokerSettings, lines: Lines, log: LogOutput) -> SupervisedProcess | None:
    """Return the store server; None where the brokers have a ZooKeeper, or a store inside."""
    if layout.store is None or layout.store_folder is None:
        return None
    from barnabas.store import process  # noqa: PLC0415  as the server
    from barnabas.store.options import StoreServerOptions  # noqa: PLC0415

    user, password = settings.barnabas_zookeeper_sasl_username, settings.barnabas_zookeeper_sasl_password
    options = StoreServerOptions(
        folder=layout.store_folder,
        host=layout.store.host,
        port=layout.store.port,
        tick_ms=STORE_TICK_MS,
        session_timeout_max_ms=max(SESSION_TIMEOUT_MAX_MS, settings.zookeeper_session_timeout_ms),
        connections_max=0,  # its brokers, and whoever else is on this machine
        sasl_passwords={} if user is None or password is None else {user: password.value},
    )

    def run(inherited: Inherited) -> int:
        _log_to_standard_error()
        return process.run(options, inherited.ready_fd, release=VERSION)

    return SupervisedProcess("store", run, lines, log)


def _properties(place: CompanionPlace, layout: Layout, own: BrokerSettings, plan: ListenerPlan) -> dict[str, str]:
    """Return the settings of a process beside the brokers. Raises ConfigError."""
    if place.companion is WEB:
        require_web(own, plan.security_protocol)
    else:
        require_login(own.given, plan.security_protocol)
    addresses = [each.ports[0].address for each in layout.brokers]
    properties = companion_properties(place.companion, own, plan, addresses)
    if place.address is not None:
        properties[place.port_setting] = str(place.address.port)
    if own.barnabas_log_format == AUTO and sys.stderr.isatty():
        properties["barnabas.log.format"] = "terminal"  # where the lines of all go
    return properties


def _companion(
    place: CompanionPlace, layout: Layout, properties: Mapping[str, str], common: BrokerSettings, log: LogOutput
) -> SupervisedProcess:
    width = max(len(each.name) for each in layout.brokers)
    lines = Lines(place.name, width, as_json=common.barnabas_log_format == "json")
    stop_ahead_s = RELAY_STOP_S if place.companion is RELAY else 0
    run = partial(become_companion, place.name, properties)
    return SupervisedProcess(place.name, run, lines, log, stop_ahead_s=stop_ahead_s)


def _row(place: CompanionPlace) -> Row:
    """The line of the banner; what a relay listens on is for figures."""
    address = None if place.address is None else str(place.address)
    if place.companion is WEB and address is not None:
        return Row(place.name, address, None, 0)
    return Row(place.name, "-", address, 0)


def _page(layout: Layout, settings: BrokerSettings) -> str | None:
    for place in layout.companions:
        if place.companion is WEB and place.address is not None:
            return settings.web_settings.base_uri(place.address.port)
    return None


def _lines(request: StartRequest, layout: Layout, name: str, settings: BrokerSettings) -> Lines:
    if request.count is None:
        return Lines(None, 0, as_json=False)
    width = max(len(place.name) for place in layout.brokers)
    return Lines(name, width, as_json=settings.barnabas_log_format == "json")


def import_server(settings: BrokerSettings) -> None:
    """Import what a broker with these settings imports when it starts."""
    from broker import process  # noqa: F401, PLC0415

    if settings.zookeeper_connect is not None:
        from broker.cluster import zookeeper_setup  # noqa: F401, PLC0415


# --- log lines of this process ---


class _LoggingThrough:
    """Within it, lines of this process's loggers go where those of its children go, and never block."""

    def __init__(self, log: LogOutput) -> None:
        self._log = log

    def write(self, text: str) -> None:
        self._log.add(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Do nothing: what is written is on its way."""

    def __enter__(self) -> None:
        _each_handler(lambda handler: handler.setStream(self))

    def __exit__(self, *_: object) -> None:
        _log_to_standard_error()


def _log_to_standard_error() -> None:
    _each_handler(lambda handler: handler.setStream(sys.stderr))


def _each_handler(change: Callable[[logging.StreamHandler[Any]], object]) -> None:
    for handler in logging.root.handlers:
        if isinstance(handler, logging.StreamHandler):
            change(handler)

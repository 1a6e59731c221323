"""Who is where when one command starts several brokers: ids, ports, folders, and the settings that differ. Pure.

    broker i    id first + i, each listener on p + i, HTTP on p + 1 + i, data in <dir>/broker_i of each log.dirs
    store       on loopback, data in <first dir>/barnabas_store; none with zookeeper.connect
    command     HTTP on p: one page for all
    web         the page of the cluster, on barnabas.web.port
    relay       its figures, on barnabas.relay.metrics.port

Rules: everything is computed before anything starts. A port of 0 is asked of `free_port`, once, so that a broker that is
started again has the port that it had. An advertised port of 0 follows the listener. The first id is broker.id; where it is
unset, or -1, that of the data (`first_id`), else 0: ids are not generated. A file that a broker writes has the broker's folder
in its name. What is set stays, but for what is listed here.
Invariant: no two parts of a layout want one port, unless one has the IPv4 and the other the IPv6 address of it, as in Apache
Kafka's rule for listeners.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.network.listening.listeners import HIGHEST_PORT, Endpoint, ListenerPlan
from config.broker import BrokerSettings
from config.companion import WEB, Companion
from config.errors import ConfigError
from metadata.features import NEWEST_WORD
from runtime.network.transport import Address, is_every_interface
from storage.directories.log_directory import BROKER_FOLDER, STORE_FOLDER

STORE_HOST = "127.0.0.1"
INTERNAL_REPLICAS = 3
# What the layout decides for each broker: --override-broker may not.
DECIDED = frozenset({
    "broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "zookeeper.connect",
    "barnabas.http.port",
})  # fmt: skip

FreePort = Callable[[str], int]
"""Returns a port that is free on a host, and stays so until it is listened on."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """A port that something listens on, and what that is, in words."""

    owner: str
    address: Address


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """One broker. `overrides` are the settings in which it differs from what the command was given, by name."""

    broker_id: int
    overrides: Mapping[str, str]
    ports: tuple[PortUse, ...]
    http: Address | None
    log_directories: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class CompanionPlace:
    """A process beside the brokers. `address` is where it listens, by the setting `port_setting`; None where it does not."""

    companion: Companion
    port_setting: str
    address: Address | None

    @property
    def name(self) -> str:
        return self.companion.name


@dataclass(frozen=True, slots=True)
class Layout:
    """`http` is the port of the command itself. A lone broker has no store server, and its HTTP port is its own."""

    brokers: tuple[BrokerPlace, ...]
    store: Address | None = None
    store_folder: str | None = None
    http: Address | None = None
    companions: tuple[CompanionPlace, ...] = ()

    @property
    def ports(self) -> list[PortUse]:
        own = [] if self.http is None else [PortUse("the command (barnabas.http.port)", self.http)]
        store = [] if self.store is None else [PortUse("the store (--store-port)", self.store)]
        beside = [
            PortUse(f"the {each.name} process ({each.port_setting})", each.address)
            for each in self.companions
            if each.address is not None
        ]
        return [*own, *(use for place in self.brokers for use in place.ports), *store, *beside]


def layout_of_many(
    settings: BrokerSettings,
    plans: Sequence[ListenerPlan],
    count: int,
    *,
    first_id: int | None,
    store_port: int,
    host_name: str,
    free_port: FreePort,
) -> Layout:
    """Return the places of `count` brokers. `plans` are the listeners of the settings, `first_id` is that of the data in the
    first broker's folder, `store_port` 0 is any free one, `host_name` that of this machine. Raises ConfigError."""
    first = first_broker_id(settings, first_id)
    has_store = settings.zookeeper_connect is None
    store = Address(STORE_HOST, store_port or free_port(STORE_HOST)) if has_store else None
    http = _http(settings, 0, free_port)
    common = {
        **_common(settings, first + count - 1, host_name),
        **(_of_own_store(settings, count) if has_store else {}),
    }
    if store is not None:
        common["zookeeper.connect"] = str(store)
    brokers = []
    for index in range(count):
        own, uses = _listening(settings, plans, first + index, index, free_port)
        page = _http(settings, index + 1, free_port)
        if page is not None:
            own["barnabas.http.port"] = str(page.port)
            uses.append(PortUse(f"broker {first + index} (barnabas.http.port)", page))
        directories = tuple(broker_folder(directory, index) for directory in settings.log_directories)
        identity = {"broker.id": str(first + index), "node.id": str(first + index), "log.dirs": ",".join(directories)}
        overrides = {**common, **identity, **own, **_own_files(settings, index)}
        brokers.append(BrokerPlace(first + index, overrides, tuple(uses), page, directories))
    folder = f"{settings.log_directories[0]}/{STORE_FOLDER}" if has_store else None
    layout = Layout(tuple(brokers), store, folder, http, _companions(settings, free_port))
    refuse_shared_ports(layout.ports, count)
    return layout


def layout_of_one(settings: BrokerSettings, plans: Sequence[ListenerPlan], *, free_port: FreePort) -> Layout:
    """Return the place of a lone broker, whose settings stay as they are but for ports of 0. Raises ConfigError."""
    broker_id = max(settings.effective_broker_id, 0)
    own, uses = _listening(settings, plans, broker_id, 0, free_port)
    page = _http(settings, 0, free_port)
    if page is not None:
        own["barnabas.http.port"] = str(page.port)
    place = BrokerPlace(broker_id, own, tuple(uses), page, settings.log_directories)
    return Layout((place,), companions=_companions(settings, free_port))


def first_broker_id(settings: BrokerSettings, of_data: int | None) -> int:
    """Return the id of the first broker."""
    given = settings.effective_broker_id
    return given if given >= 0 else of_data or 0


def broker_folder(directory: str, index: int) -> str:
    """Return the folder that the broker at `index`, from 0, has in one of `log.dirs`."""
    return f"{directory.rstrip('/') or '/'}/{BROKER_FOLDER}{index}"


def refuse_shared_ports(uses: Sequence[PortUse], count: int) -> None:
    """Raises ConfigError if two uses cannot listen side by side."""
    by_port: dict[int, list[PortUse]] = {}
    for use in uses:
        port = use.address.port
        if port > HIGHEST_PORT:
            raise ConfigError(f"{use.owner} would listen on port {port}, above {HIGHEST_PORT}: begin with a lower one")
        for other in by_port.setdefault(port, []):
            if not _may_share(other.address.host, use.address.host):
                raise ConfigError(
                    f"{other.owner} and {use.owner} would both listen on port {port}: with {count} brokers each listener and "
                    f"each HTTP port takes {count} ports in a row"
                )
        by_port[port].append(use)


def _may_share(one: str, other: str) -> bool:
    versions = sorted(map(_ip_version, (one, other)))
    return versions == [4, 6] and not is_every_interface(one) and not is_every_interface(other)


def _ip_version(host: str) -> int:
    """4, 6, or 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _listening(
    settings: BrokerSettings, plans: Iterable[ListenerPlan], broker_id: int, index: int, free_port: FreePort
) -> tuple[dict[str, str], list[PortUse]]:
    """Return the settings of a broker's listeners, and their ports."""
    uses, listeners = [], []
    for plan in plans:
        address = Address(plan.bind.host, _shifted(plan.bind.port, index) or free_port(plan.bind.host))
        uses.append(PortUse(f"broker {broker_id} (listener {plan.name})", address))
        listeners.append(str(Endpoint(plan.name, address.host, address.port)))
    own = {"listeners": ",".join(listeners)}
    if settings.advertised_listeners is not None:
        registered = sorted(
            (plan.position, plan.name, plan.advertised)
            for plan in plans
            if plan.position is not None and plan.advertised is not None
        )
        own["advertised.listeners"] = ",".join(
            str(Endpoint(name, address.host, _shifted(address.port, index))) for _, name, address in registered
        )
    return own, uses


def _shifted(port: int, index: int) -> int:
    """Return the port of the broker at `index`; 0 stays."""
    return port and port + index


def _http(settings: BrokerSettings, index: int, free_port: FreePort) -> Address | None:
    host, port = settings.barnabas_http_host, settings.barnabas_http_port
    return None if port is None else Address(host, _shifted(port, index) or free_port(host))


def _companions(settings: BrokerSettings, free_port: FreePort) -> tuple[CompanionPlace, ...]:
    return tuple(_companion(each, settings, free_port) for each in settings.companions)


def _companion(companion: Companion, settings: BrokerSettings, free_port: FreePort) -> CompanionPlace:
    host: str
    port: int | None
    if companion is WEB:
        name, host = "barnabas.web.port", settings.web_settings.barnabas_web_host
        port = settings.web_settings.barnabas_web_port
    else:
        name, host = "barnabas.relay.metrics.port", settings.relay_settings.barnabas_relay_metrics_host
        port = settings.relay_settings.barnabas_relay_metrics_port
    return CompanionPlace(companion, name, None if port is None else Address(host, port or free_port(host)))


def _common(settings: BrokerSettings, last_id: int, host_name: str) -> dict[str, str]:
    """Return what all brokers have in common, with any store."""
    common = {} if settings.barnabas_host_id is not None else {"barnabas.host.id": host_name}
    if last_id > settings.reserved_broker_max_id:  # data of a broker whose id was generated
        common["broker.id.generation.enable"] = "false"
    return common


def _of_own_store(settings: BrokerSettings, count: int) -> dict[str, str]:
    """Return what follows from there being no other brokers than these, and from a store on this machine."""
    common = {"zookeeper.ssl.client.enable": "false"} if settings.zookeeper_ssl_client_enable else {}
    if not settings.barnabas_initial_features:  # no broker of Apache Kafka joins them
        common["barnabas.initial.features"] = NEWEST_WORD
    if count >= INTERNAL_REPLICAS:
        return common
    wanted = {
        "offsets.topic.replication.factor": count,
        "transaction.state.log.replication.factor": count,
        "transaction.state.log.min.isr": max(count - 1, 1),
    }
    return common | {name: str(number) for name, number in wanted.items() if name not in settings.given}


def _own_files(settings: BrokerSettings, index: int) -> dict[str, str]:
    own = {}
    if settings.metadata_log_dir is not None:
        own["metadata.log.dir"] = broker_folder(settings.metadata_log_dir, index)
    if settings.barnabas_audit_log is not None:
        stem, suffix = posixpath.splitext(settings.barnabas_audit_log)
        own["barnabas.audit.log"] = f"{stem}.{BROKER_FOLDER}{index}{suffix}"
    return own

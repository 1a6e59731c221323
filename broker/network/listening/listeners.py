"""Listeners: the settings that say where a broker listens and which addresses clients receive.

Pure. `parse_listeners` turns the settings into `ListenerPlan`s with Kafka's rules; every mistake is one ValueError
whose text names the setting and the value. `advertised_endpoints` joins a plan with the ports that were really bound.

Defaults. Without `listeners` the broker listens on both loopbacks, `PLAINTEXT://localhost:9092` (Kafka: on every
interface). A listener on a wildcard address without an advertised one has `advertised=None`: Metadata then has
the local address of the client's own connection, which the client can reach. An empty
host in `advertised.listeners` is the machine's own name (`with_host_name`). An advertised port of 0, or of a listener on
port 0, follows the bound port. Brokers are registered with their listeners in the order of `advertised.listeners`.

Hosts. A host is kept as it was written, also an IPv6 address, whose brackets may be left out. What Kafka takes though nobody
could listen on it or connect to it is refused: a port above 65535, and a host with `:` or `%` that is no IPv6 address.
Source: Kafka SocketServerConfigs, KafkaConfig.validateAdvertisedListenersNonMeta, CoreUtils.listenerListToEndPoints,
EndPoint; KIP-103.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.network.transport import Address, is_every_interface

DEFAULT_LISTENERS = "PLAINTEXT://localhost:9092"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP = ",".join(f"{protocol}:{protocol}" for protocol in SECURITY_PROTOCOLS)
HIGHEST_PORT = 65535

_ENDPOINT = re.compile(r"(?P<name>[^:]+)://\[?(?P<host>[0-9a-zA-Z.%:_-]*)\]?:(?P<port>-?[0-9]{1,10})")
_FORM = (
    "NAME://host:port, where the host is a name of ASCII letters, digits, '.', '-' and '_', or an IPv4 or IPv6 address, or "
    f"empty, and the port is a number from 0 to {HIGHEST_PORT}"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners` or `advertised.listeners`. Names are upper case, an empty host is every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """A listener to open. `advertised` is None when clients receive the address that they used; its host is empty where
    they receive the machine's name.

    `position` is its place among the registered endpoints. When `advertised.listeners` is set and does not name the
    listener, it has none: it is open but registered nowhere.
    """

    name: str
    security_protocol: str
    bind: Address
    advertised: Address | None
    position: int | None
    is_inter_broker: bool

    @property
    def is_registered(self) -> bool:
        return self.position is not None


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings' values; None where nothing is set."""

    listeners: str | None = None
    advertised_listeners: str | None = None
    protocol_map: str = DEFAULT_PROTOCOL_MAP
    inter_broker_listener_name: str | None = None
    security_inter_broker_protocol: str | None = None


def parse_listeners(settings: ListenerSettings) -> list[ListenerPlan]:
    """The listeners to open, in the order of `listeners`. Raises ValueError."""
    protocols = parse_protocol_map(settings.protocol_map)
    endpoints = _endpoints("listeners", DEFAULT_LISTENERS if settings.listeners is None else settings.listeners)
    _refuse_shared_ports(endpoints)
    advertised = _advertised(settings.advertised_listeners, endpoints)
    for endpoint in (*endpoints, *advertised.values()):
        if endpoint.name not in protocols:
            raise ValueError(f"listener.security.protocol.map has no security protocol for listener {endpoint.name}")
    inter_broker = _inter_broker_name(settings, endpoints, protocols)
    if settings.advertised_listeners is not None and inter_broker not in advertised:
        raise ValueError(
            f"inter.broker.listener.name={inter_broker} must be one of the names in advertised.listeners="
            f"{settings.advertised_listeners}"
        )
    positions = {name: position for position, name in enumerate(advertised or (each.name for each in endpoints))}
    return [
        ListenerPlan(
            name=endpoint.name,
            security_protocol=protocols[endpoint.name],
            bind=Address(endpoint.host, endpoint.port),
            advertised=_advertised_address(endpoint, advertised.get(endpoint.name)),
            position=positions.get(endpoint.name),
            is_inter_broker=endpoint.name == inter_broker,
        )
        for endpoint in endpoints
    ]


def parse_endpoint(text: str) -> Endpoint:
    """`NAME://host:port`; an IPv6 host may stand in brackets, an empty host is every interface. Raises ValueError."""
    text = text.strip()
    match = _ENDPOINT.fullmatch(text)
    if match is None or not 0 <= int(match["port"]) <= HIGHEST_PORT or not _may_be_host(match["host"]):
        raise ValueError(f"{text!r} is not of the form {_FORM}")
    return Endpoint(match["name"].upper(), match["host"], int(match["port"]))


def _may_be_host(text: str) -> bool:
    """Of those characters that a host may have."""
    if ":" not in text and "%" not in text:
        return True
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...` by listener name, both in upper case. Raises ValueError."""
    protocols: dict[str, str] = {}
    for item in _items(text):
        name, separator, protocol = (part.strip().upper() for part in item.rpartition(":"))
        if not separator or not name:
            raise ValueError(f"listener.security.protocol.map: {item!r} is not of the form NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise ValueError(
                f"listener.security.protocol.map: {protocol!r} is not one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name in protocols:
            raise ValueError(f"listener.security.protocol.map names {name} twice")
        protocols[name] = protocol
    return protocols


def advertised_endpoints(plans: Iterable[ListenerPlan], bound: Mapping[str, Address]) -> dict[str, Address]:
    """What the broker registers for each listener name, in the order in which it does. `bound` has the addresses that are
    really listened on.

    A listener that advertises what each client used is registered with the machine's loopback name, which other
    brokers could not reach: `needs_advertised` tells a broker in a cluster to refuse that.
    """
    endpoints: dict[str, Address] = {}
    registered = [(plan.position, plan) for plan in plans if plan.position is not None]
    for _, plan in sorted(registered, key=lambda pair: pair[0]):
        port = bound[plan.name].port
        if plan.advertised is None:
            endpoints[plan.name] = Address("localhost", port)
        else:
            endpoints[plan.name] = Address(plan.advertised.host, plan.advertised.port or port)
    return endpoints


def endpoint_for(plan: ListenerPlan, registered: Address, local: Address) -> Address:
    """The address of this broker for a client whose connection has the local address `local`."""
    if plan.advertised is None:
        return Address(local.host, registered.port)
    return registered


def needs_advertised(plans: Iterable[ListenerPlan]) -> list[str]:
    """The listeners that cannot be registered for other machines without `advertised.listeners`."""
    return [plan.name for plan in plans if plan.is_registered and plan.advertised is None]


def needs_host_name(plans: Sequence[ListenerPlan], *, has_others: bool) -> bool:
    """Whether a listener advertises the machine's name. To know it may take a look-up. `has_others`: the broker is one of
    several."""
    is_asked_for = any(plan.advertised is not None and not plan.advertised.host for plan in plans)
    return is_asked_for or (has_others and bool(needs_advertised(plans)))


def with_host_name(plans: Iterable[ListenerPlan], host_name: str) -> list[ListenerPlan]:
    """The plans with `host_name` for an empty host in `advertised.listeners`."""
    return [
        replace(plan, advertised=Address(host_name, plan.advertised.port))
        if plan.advertised is not None and not plan.advertised.host
        else plan
        for plan in plans
    ]


# --- the rules, one by one ---


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _endpoints(setting: str, text: str) -> list[Endpoint]:
    try:
        endpoints = [parse_endpoint(item) for item in _items(text)]
    except ValueError as error:
        raise ValueError(f"{setting}={text}: {error}") from error
    if not endpoints:
        raise ValueError(f"{setting} must name at least one listener, of the form {_FORM}")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ValueError(f"{setting}={text}: each listener must have a different name")
    return endpoints


def _refuse_shared_ports(endpoints: list[Endpoint]) -> None:
    """Two listeners share a port only as one IPv4 and one IPv6 address; port 0 never clashes."""
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) == 1:
            continue
        versions = sorted(_ip_version(endpoint.host) for endpoint in sharing)
        if versions != [4, 6] or any(is_every_interface(endpoint.host) for endpoint in sharing):
            names = ", ".join(map(str, sharing))
            raise ValueError(
                f"listeners: port {port} is used more than once ({names}); only one IPv4 and one IPv6 address may share a "
                "port, and neither 0.0.0.0 nor [::], which are all addresses of both"
            )


def _ip_version(host: str) -> int:
    """4, 6, or 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _advertised(text: str | None, endpoints: list[Endpoint]) -> dict[str, Endpoint]:
    if text is None:
        return {}
    advertised = {endpoint.name: endpoint for endpoint in _endpoints("advertised.listeners", text)}
    for endpoint in advertised.values():
        if endpoint.host and is_every_interface(endpoint.host):
            raise ValueError(
                f"advertised.listeners={text}: a client cannot connect to {endpoint.host}; name the address that reaches "
                "this broker, or none for the name of this machine"
            )
    unknown = [name for name in advertised if name not in {endpoint.name for endpoint in endpoints}]
    if unknown:
        raise ValueError(f"advertised.listeners names {', '.join(unknown)}, which listeners does not")
    return advertised


def _advertised_address(endpoint: Endpoint, advertised: Endpoint | None) -> Address | None:
    if advertised is not None:
        return Address(advertised.host, advertised.port)
    if is_every_interface(endpoint.host):
        return None
    return Address(endpoint.host, endpoint.port)


def _inter_broker_name(settings: ListenerSettings, endpoints: list[Endpoint], protocols: Mapping[str, str]) -> str:
    """By `inter.broker.listener.name`, else the listener of `security.inter.broker.protocol` (default PLAINTEXT)."""
    names = [endpoint.name for endpoint in endpoints]
    chosen = settings.inter_broker_listener_name
    if chosen:
        if settings.security_inter_broker_protocol:
            raise ValueError("only one of inter.broker.listener.name and security.inter.broker.protocol may be set")
        if chosen.upper() not in names:
            raise ValueError(f"inter.broker.listener.name={chosen} is not among the listeners {', '.join(names)}")
        return chosen.upper()
    protocol = (settings.security_inter_broker_protocol or "PLAINTEXT").upper()
    if protocol in names:
        return protocol
    matching = [name for name in names if protocols.get(name) == protocol]
    if len(matching) == 1 or (len(names) == 1 and not settings.security_inter_broker_protocol):
        return (matching or names)[0]
    raise ValueError(f"no listener is named {protocol}: set inter.broker.listener.name to one of {', '.join(names)}")

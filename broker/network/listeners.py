"""Listeners: the settings that say where a broker listens and what it tells clients to connect to.

Pure. `parse_listeners` turns the settings into `ListenerPlan`s with Kafka's rules; every mistake is one ValueError
whose text names the setting and the value. `advertised_endpoints` joins a plan with the ports that were really bound.

Defaults. Without `listeners` the broker listens on both loopbacks, `PLAINTEXT://localhost:9092` (Kafka: on every
interface). A listener on a wildcard address without an advertised one has `advertised=None`: Metadata then answers with
the local address that the client's own connection came in on, so that it works from wherever the client stands.
An advertised port of 0, or of a listener on port 0, follows the bound port.
Source: Kafka SocketServerConfigs, KafkaConfig.validateAdvertisedListenersNonMeta, CoreUtils.listenerListToEndPoints;
KIP-103.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runtime.transport import Address

DEFAULT_LISTENERS = "PLAINTEXT://localhost:9092"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP = ",".join(f"{protocol}:{protocol}" for protocol in SECURITY_PROTOCOLS)
WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - to be recognised, not bound
HIGHEST_PORT = 65535

_ENDPOINT = re.compile(r"(?P<name>[^:]+)://(?:\[(?P<bracketed>[^\]]*)\]|(?P<host>[^\[\]:/]*)):(?P<port>-?\d+)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners` or `advertised.listeners`. Names are upper case, an empty host is every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """A listener to open. `advertised` is None when clients are told the address that they used.

    When `advertised.listeners` is set and does not name the listener, it is open but registered nowhere.
    """

    name: str
    security_protocol: str
    bind: Address
    advertised: Address | None
    is_registered: bool
    is_inter_broker: bool


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings' values; None or an empty text where nothing is set."""

    listeners: str | None = None
    advertised_listeners: str | None = None
    protocol_map: str = DEFAULT_PROTOCOL_MAP
    inter_broker_listener_name: str | None = None
    security_inter_broker_protocol: str | None = None


def parse_listeners(settings: ListenerSettings) -> list[ListenerPlan]:
    """The listeners to open, in the order of `listeners`. Raises ValueError."""
    protocols = parse_protocol_map(settings.protocol_map)
    endpoints = _endpoints("listeners", settings.listeners or DEFAULT_LISTENERS)
    if not endpoints:
        raise ValueError("listeners must name at least one listener")
    _refuse_shared_ports(endpoints)
    advertised = _advertised(settings.advertised_listeners, endpoints)
    for endpoint in (*endpoints, *advertised.values()):
        if endpoint.name not in protocols:
            raise ValueError(f"listener.security.protocol.map has no security protocol for listener {endpoint.name}")
    inter_broker = _inter_broker_name(settings, endpoints, protocols)
    if settings.advertised_listeners and inter_broker not in advertised:
        raise ValueError(
            f"inter.broker.listener.name={inter_broker} must be one of the names in advertised.listeners="
            f"{settings.advertised_listeners}"
        )
    return [
        ListenerPlan(
            name=endpoint.name,
            security_protocol=protocols[endpoint.name],
            bind=Address(endpoint.host, endpoint.port),
            advertised=_advertised_address(endpoint, advertised.get(endpoint.name)),
            is_registered=not advertised or endpoint.name in advertised,
            is_inter_broker=endpoint.name == inter_broker,
        )
        for endpoint in endpoints
    ]


def parse_endpoint(text: str) -> Endpoint:
    """`NAME://host:port`; an IPv6 host stands in brackets, an empty host is every interface. Raises ValueError."""
    match = _ENDPOINT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is not of the form NAME://host:port")
    bracketed, host = match["bracketed"], match["host"]
    if bracketed is not None:
        host = str(ipaddress.IPv6Address(bracketed))
    port = int(match["port"])
    if not 0 <= port <= HIGHEST_PORT:
        raise ValueError(f"{text.strip()!r}: the port must be between 0 and {HIGHEST_PORT}")
    return Endpoint(match["name"].upper(), host, port)


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
    """What the broker registers for each listener name. `bound` has the addresses that are really listened on.

    A listener that advertises what each client used is registered with the machine's loopback name, which other
    brokers could not reach: `needs_advertised` tells a broker in a cluster to refuse that.
    """
    endpoints: dict[str, Address] = {}
    for plan in plans:
        if not plan.is_registered:
            continue
        port = bound[plan.name].port
        if plan.advertised is None:
            endpoints[plan.name] = Address("localhost", port)
        else:
            endpoints[plan.name] = Address(plan.advertised.host, plan.advertised.port or port)
    return endpoints


def endpoint_for(plan: ListenerPlan, registered: Address, local: Address) -> Address:
    """What Metadata answers about this broker to a client whose connection came in at `local`."""
    if plan.advertised is None:
        return Address(local.host, registered.port)
    return registered


def needs_advertised(plans: Iterable[ListenerPlan]) -> list[str]:
    """The listeners that cannot be registered for other machines without `advertised.listeners`."""
    return [plan.name for plan in plans if plan.is_registered and plan.advertised is None]


# --- the rules, one by one ---


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _endpoints(setting: str, text: str) -> list[Endpoint]:
    try:
        endpoints = [parse_endpoint(item) for item in _items(text)]
    except ValueError as error:
        raise ValueError(f"{setting}={text}: {error}") from error
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
        if versions != [4, 6]:
            names = ", ".join(map(str, sharing))
            raise ValueError(
                f"listeners: port {port} is used more than once ({names}); "
                "only one IPv4 and one IPv6 address may share a port"
            )


def _ip_version(host: str) -> int:
    """4, 6, or 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _advertised(text: str | None, endpoints: list[Endpoint]) -> dict[str, Endpoint]:
    if not text:
        return {}
    advertised = {endpoint.name: endpoint for endpoint in _endpoints("advertised.listeners", text)}
    for endpoint in advertised.values():
        if endpoint.host in WILDCARD_HOSTS:
            raise ValueError(
                f"advertised.listeners={text}: a client cannot connect to {endpoint.host or 'an empty host'}; "
                "name the address that reaches this broker"
            )
    unknown = [name for name in advertised if name not in {endpoint.name for endpoint in endpoints}]
    if unknown:
        raise ValueError(f"advertised.listeners names {', '.join(unknown)}, which listeners does not")
    return advertised


def _advertised_address(endpoint: Endpoint, advertised: Endpoint | None) -> Address | None:
    if advertised is not None:
        return Address(advertised.host, advertised.port)
    if endpoint.host in WILDCARD_HOSTS:
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

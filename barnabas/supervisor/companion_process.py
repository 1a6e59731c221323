"""A process beside the brokers (`config.companion`): how it reaches them, and how it begins.

Rules: it is a plain client, so it is another program: the forked process becomes `barnabas web` or `barnabas relay`, and has
nothing of the server's memory. It gets its settings in a file in memory, since all users of a machine see arguments, and none
of the environment's KAFKA_ variables, which are the broker's. It reaches the cluster by the first listener, with the trust
store of that listener; what differs is in `barnabas.<name>.client.*`. It never has the key of a broker, who may do everything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NoReturn

from barnabas.launch import command
from barnabas.properties import properties_text
from barnabas.supervisor.child import Inherited
from broker.network.listening.listeners import ListenerPlan
from config.broker import BrokerSettings
from config.broker.security import SecuritySettings
from config.companion import RELAY, Companion
from config.errors import ConfigError
from config.listener_values import ListenerValues
from config.sources import PREFIX as VARIABLE_PREFIX
from config.web import has_login
from runtime.command_line.extras import WEB
from runtime.network.transport import Address, is_every_interface

_TRUST = (
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
)
_WITHOUT_PASSWORD = ("GSSAPI", "OAUTHBEARER")


def require_web(settings: BrokerSettings, protocol: str) -> None:
    """Refuse a start whose web process could not be started, or must not be. `protocol` is that of the first listener. Raises
    ConfigError."""
    missing = [name for name in sorted(WEB.modules) if find_spec(name) is None]
    if missing:
        raise ConfigError(f"barnabas.web.enable=true {WEB.line}")
    settings.web_settings.accepts_proxies_alone(has_login=has_login(settings.given, protocol))


def companion_properties(
    companion: Companion, settings: BrokerSettings, plan: ListenerPlan, brokers: Sequence[Address]
) -> dict[str, str]:
    """Return the settings of the process. `settings` are the first broker's, whose first listener is `plan`; `brokers` are the
    addresses of all. Raises ConfigError."""
    own = companion.client_among(settings.given)
    given = {**(_of_authorizer(settings) if companion is RELAY else {}), **companion.own_among(settings.given)}
    client = {
        "bootstrap.servers": ",".join(str(_reached(plan, address)) for address in brokers),
        "security.protocol": own.get("security.protocol", plan.security_protocol),
    }
    values = ListenerValues(settings, plan.name)
    if client["security.protocol"].endswith("SSL"):
        for name in _TRUST:
            row = SecuritySettings.definitions[name]
            value = values.value(name)
            if value is not None and value != row.default:
                client[name] = row.format(value) or ""
    if client["security.protocol"].startswith("SASL"):
        mechanisms = values.value("sasl.enabled.mechanisms")
        with_password = [name for name in mechanisms if name.upper() not in _WITHOUT_PASSWORD]
        client["sasl.mechanism"] = next(iter(with_password or mechanisms))
    return {**given, **client, **own}


def _of_authorizer(settings: BrokerSettings) -> dict[str, str]:
    """What a relay is to know of the brokers' authorizer, which they do not tell clients."""
    acls = settings.acl_settings
    if acls is None:
        return {}
    return {
        "barnabas.relay.super.users": ";".join(acls.super_users),
        "barnabas.relay.allow.everyone.if.no.acl.found": str(acls.allows_without_acl).lower(),
    }


def become_companion(name: str, properties: Mapping[str, str], inherited: Inherited) -> NoReturn:
    """Run the command `name` in place of this program. Raises OSError."""
    descriptor = os.memfd_create(f"{name}.properties", 0)
    os.write(descriptor, properties_text(properties).encode("ascii"))
    os.set_inheritable(inherited.ready_fd, True)
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(VARIABLE_PREFIX)}
    line = command(name, f"/proc/self/fd/{descriptor}", "--ready-fd", str(inherited.ready_fd))
    os.execve(line[0], line, environment)  # noqa: S606  our own interpreter, no shell


def _reached(plan: ListenerPlan, address: Address) -> Address:
    """Return where a client on this machine reaches a listener. With TLS by the name that brokers tell clients, since the
    certificate has that."""
    if plan.security_protocol.endswith("SSL") and plan.advertised is not None and plan.advertised.host:
        return Address(plan.advertised.host, address.port)
    return Address("localhost" if is_every_interface(address.host) else address.host, address.port)

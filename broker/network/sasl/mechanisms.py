"""The SASL mechanisms that a listener can have, and what the settings make of them.

`MECHANISMS` is the table: a mechanism's name, the Java classes of its login modules, and how its exchanges are made from the
options of such a module. A mechanism reads its options from `listener.name.<listener>.<mechanism>.sasl.jaas.config`, which has
one login module.

Rules: no IO. Every mistake in the settings is a ConfigError that names the setting, and none has a secret in its text. Java
classes that would replace a part of a mechanism are refused before (`config.java_classes`).
Source: Kafka SaslChannelBuilder, JaasContext, BrokerSecurityConfigs; KIP-86, KIP-226.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.network.sasl.exchange import SaslRules
from broker.network.sasl.oauth_mechanism import LOGIN_MODULE as OAUTH_MODULE
from broker.network.sasl.oauth_mechanism import oauth_exchanges
from config.errors import ConfigError
from config.listener_values import ListenerValues
from metadata.store.znode_json import java_map_order
from security.sasl.jaas import LoginModule, parse_login_modules
from security.sasl.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, MechanismTable, SaslServerFactory
from security.sasl.plain import PlainServer, users_of
from security.sasl.scram import MECHANISMS as SCRAM
from security.sasl.scram import NONCE_BYTES, ScramServer

if TYPE_CHECKING:
    from broker.network.listening.listeners import ListenerPlan
    from broker.network.sasl.sources import SaslSources
    from config.broker import BrokerSettings

JAAS = "sasl.jaas.config"
ENABLED = "sasl.enabled.mechanisms"
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@dataclass(frozen=True, slots=True)
class MechanismContext:
    """What a mechanism of a listener is made from. `options` are those of its login module, if it has one."""

    mechanism: str
    values: ListenerValues
    options: Mapping[str, str] = field(repr=False)  # passwords are among them
    sources: SaslSources


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`make` returns what makes the exchanges of a listener; it raises ConfigError. `needs_module`: it has nothing to offer
    without a login module."""

    name: str
    login_modules: tuple[str, ...]
    make: Callable[[MechanismContext], SaslServerFactory]
    needs_module: bool = True


def _plain(context: MechanismContext) -> SaslServerFactory:
    passwords = users_of(context.options)
    return lambda: PlainServer(passwords)


def _scram(context: MechanismContext) -> SaslServerFactory:
    mechanism, users, randomness = SCRAM[context.mechanism], context.sources.users, context.sources.randomness
    return lambda: ScramServer(mechanism, users, randomness.randbytes(NONCE_BYTES).hex())


def _oauth(context: MechanismContext) -> SaslServerFactory:
    return oauth_exchanges(context.values, context.options, context.sources.oauth, context.sources.clock.wall_ms)


MECHANISMS: Mapping[str, Mechanism] = {
    each.name: each
    for each in (
        Mechanism(PLAIN, (_PLAIN_MODULE,), _plain),
        *(Mechanism(name, (_SCRAM_MODULE,), _scram, needs_module=False) for name in SCRAM),
        Mechanism(OAUTHBEARER, (OAUTH_MODULE,), _oauth),
    )
}


def sasl_rules(settings: BrokerSettings, plans: Iterable[ListenerPlan], sources: SaslSources) -> dict[str, SaslRules]:
    """Return how clients authenticate on each listener with SASL. Raises ConfigError."""

    def rules(plan: ListenerPlan) -> SaslRules:
        values = ListenerValues(settings, plan.name)
        names = enabled_mechanisms(values)
        makers = [(MECHANISMS[name], _options(values, MECHANISMS[name])) for name in names]
        return _rules(
            settings,
            values,
            {
                mechanism.name: mechanism.make(MechanismContext(mechanism.name, values, options, sources))
                for mechanism, options in makers
            },
        )

    return {plan.name: rules(plan) for plan in plans if plan.security_protocol in SASL_PROTOCOLS}


def _rules(settings: BrokerSettings, values: ListenerValues, mechanisms: MechanismTable) -> SaslRules:
    return SaslRules(
        mechanisms=mechanisms,
        max_reauth_ms={name: values.value_of_mechanism("connections.max.reauth.ms", name) for name in mechanisms},
        max_receive_bytes=values.value("sasl.server.max.receive.size"),
        failure_delay_ms=settings.connection_failed_authentication_delay_ms,
        timeout_ms=settings.barnabas_authentication_timeout_ms,
    )


def enabled_mechanisms(values: ListenerValues) -> list[str]:
    """Return the mechanisms of a listener, in the order in which Kafka tells clients of them: that of a Java HashSet. Raises
    ConfigError when one of them is not known, or there is none."""
    names = java_map_order(dict.fromkeys(values.value(ENABLED)))
    known = ", ".join(MECHANISMS)
    if not names:
        raise ConfigError(f"listener {values.listener}: {ENABLED} is empty; there are {known}")
    for name in names:
        if name == GSSAPI:
            raise ConfigError(
                f"listener {values.listener}: {ENABLED} has GSSAPI (which is its default), and this broker has no Kerberos; "
                f"set it to some of {known}"
            )
        if name not in MECHANISMS:
            raise ConfigError(f"listener {values.listener}: {ENABLED} has {name}, which is unknown; there are {known}")
    return names


def login_module(values: ListenerValues, mechanism: Mechanism, *, is_needed: bool = True) -> LoginModule | None:
    """Return the login module of a mechanism of a listener; None without one that is not needed. Raises ConfigError."""
    setting = values.setting_name(JAAS, mechanism.name)
    password = values.of_mechanism(JAAS, mechanism.name)
    if password is None and not is_needed:
        return None
    if password is None:
        hint = ""
        if values.value(JAAS) is not None:
            hint = f" ({JAAS} without listener and mechanism in front is not for listeners)"
        raise ConfigError(
            f"{setting} is not set{hint}: the listener offers {mechanism.name}, and needs "
            f'a login module, such as: {mechanism.login_modules[0]} required username="..." password="...";'
        )
    try:
        modules = parse_login_modules(password.value)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
    if len(modules) != 1:
        raise ConfigError(f"{setting}: JAAS config property contains {len(modules)} login modules, should be 1 module")
    module = modules[0]
    if module.name not in mechanism.login_modules:
        raise ConfigError(f"{setting}: {_refusal(module)}; {mechanism.name} has {' or '.join(mechanism.login_modules)}")
    return module


def _refusal(module: LoginModule) -> str:
    if module.name == _KERBEROS_MODULE:
        return "there is no Kerberos, and no Krb5LoginModule"
    known = {name for each in MECHANISMS.values() for name in each.login_modules}
    what = "belongs to another mechanism" if module.name in known else "is not known (Java classes cannot be loaded)"
    return f"login module {module.short_name} {what}"


def _options(values: ListenerValues, mechanism: Mechanism) -> Mapping[str, str]:
    """Return the options of a mechanism's login module. Raises ConfigError."""
    module = login_module(values, mechanism, is_needed=mechanism.needs_module)
    return {} if module is None else module.options

"""Who this broker is to other brokers, where their listener wants SASL.

The mechanism is `sasl.mechanism.inter.broker.protocol`; name and password are options of the same login module by which the
listener's clients are checked: `listener.name.<listener>.<mechanism>.sasl.jaas.config`. A bearer token has settings of its own.
Rules: no IO. Every mistake is a ConfigError that names the setting, and none has a secret in its text.
Source: Kafka ChannelBuilders (the server's context for connections between brokers), KafkaConfig.validateValues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.sasl.mechanisms import JAAS, MECHANISMS, MechanismContext, enabled_mechanisms, login_module
from broker.network.sasl.oauth_mechanism import oauth_login
from client.mechanisms import MECHANISMS as CLIENTS
from client.mechanisms import exchanges_of
from client.opening import Login
from client.settings.values import BearerSettings, LoginSettings
from config.errors import ConfigError
from config.listener_values import ListenerValues
from security.sasl.scram import NONCE_BYTES, TOKEN_EXTENSION

if TYPE_CHECKING:
    from broker.network.sasl.sources import SaslSources
    from config.broker import BrokerSettings
    from config.inter_broker_version import InterBrokerVersion

# SaslAuthenticate came with 1.0, and tells from 2.2 on for how long a session holds.
OLDEST_VERSION = "1.0-IV0"
_LIFETIME_VERSION = "2.2-IV0"


def broker_login(
    settings: BrokerSettings,
    listener: str,
    version: InterBrokerVersion,
    sources: SaslSources,
) -> Login:
    """Return the login at `listener` of other brokers. Raises ConfigError."""
    values = ListenerValues(settings, listener)
    name = settings.sasl_mechanism_inter_broker_protocol
    if name not in enabled_mechanisms(values):
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={name} must be included in sasl.enabled.mechanisms when SASL is used for "
            f"inter-broker communication, as on listener {listener}"
        )
    if name not in CLIENTS:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={name}: there are {', '.join(CLIENTS)} between brokers"
        )
    if not version.is_at_least(OLDEST_VERSION):
        raise ConfigError(
            f"inter.broker.protocol.version={settings.inter_broker_protocol_version}: before {OLDEST_VERSION} brokers "
            "do not know the requests in which this broker would authenticate"
        )
    module = login_module(values, MECHANISMS[name])
    assert module is not None
    login, token = _settings(MechanismContext(name, values, module.options, sources))
    exchanges = exchanges_of(login, lambda: sources.randomness.randbytes(NONCE_BYTES).hex(), token)
    return Login(name, exchanges, 1 if version.is_at_least(_LIFETIME_VERSION) else 0)


def _settings(context: MechanismContext) -> tuple[LoginSettings, Callable[[], str]]:
    """Return the settings of the login, and what returns the current bearer token. Raises ConfigError."""
    if CLIENTS[context.mechanism].takes_token:
        sources = context.sources
        extensions, token = oauth_login(context.values, context.options, sources.oauth, sources.clock.wall_ms)
        return LoginSettings(context.mechanism, bearer=BearerSettings(extensions=tuple(extensions.items()))), token
    username, password = context.options.get("username"), context.options.get("password")
    if not username or not password:
        setting = context.values.setting_name(JAAS, context.mechanism)
        raise ConfigError(f"{setting}: username and password are needed, with which this broker connects to others")
    is_token = context.options.get(TOKEN_EXTENSION, "").lower() == "true"
    return LoginSettings(context.mechanism, username, password, is_token), str

"""Who this broker is to other brokers, where their listener wants SASL.

The mechanism is `sasl.mechanism.inter.broker.protocol`; name and password are options of the same login module by which the
listener's clients are checked: `listener.name.<listener>.<mechanism>.sasl.jaas.config`. A bearer token has settings of its own.
`CLIENTS` is the table of what a mechanism makes of them.
Rules: no IO. Every mistake is a ConfigError that names the setting, and none has a secret in its text.
Source: Kafka ChannelBuilders (the server's context for connections between brokers), KafkaConfig.validateValues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.network.sasl.mechanisms import JAAS, MECHANISMS, MechanismContext, enabled_mechanisms, login_module
from broker.network.sasl.oauth_mechanism import oauth_client
from config.errors import ConfigError
from config.listener_values import ListenerValues
from security.plain import PlainClient
from security.sasl import OAUTHBEARER, PLAIN, SaslClientFactory
from security.scram import MECHANISMS as SCRAM
from security.scram import NONCE_BYTES, TOKEN_EXTENSION, SaltedPasswords, ScramClient

if TYPE_CHECKING:
    from broker.network.sasl.sources import SaslSources
    from config.broker import BrokerSettings
    from config.inter_broker_version import InterBrokerVersion

# SaslAuthenticate came with 1.0, and tells from 2.2 on for how long a session holds.
OLDEST_VERSION = "1.0-IV0"
_LIFETIME_VERSION = "2.2-IV0"


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """`make_client` makes one exchange; `version` is that of SaslAuthenticate."""

    mechanism: str
    make_client: SaslClientFactory
    version: int


def _plain(context: MechanismContext) -> SaslClientFactory:
    username, password = _credentials(context)
    return lambda: PlainClient(username, password)


def _scram(context: MechanismContext) -> SaslClientFactory:
    username, password = _credentials(context)
    mechanism, randomness = SCRAM[context.mechanism], context.sources.randomness
    passwords = SaltedPasswords(mechanism, password)
    is_token = context.options.get(TOKEN_EXTENSION, "").lower() == "true"
    return lambda: ScramClient(
        mechanism, username, passwords, randomness.randbytes(NONCE_BYTES).hex(), is_token=is_token
    )


def _oauth(context: MechanismContext) -> SaslClientFactory:
    return oauth_client(context.values, context.options, context.sources.oauth, context.sources.clock.wall_ms)


CLIENTS: Mapping[str, Callable[[MechanismContext], SaslClientFactory]] = {
    PLAIN: _plain,
    **dict.fromkeys(SCRAM, _scram),
    OAUTHBEARER: _oauth,
}


def broker_login(
    settings: BrokerSettings,
    listener: str,
    version: InterBrokerVersion,
    sources: SaslSources,
) -> BrokerLogin:
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
    context = MechanismContext(name, values, module.options, sources)
    return BrokerLogin(name, CLIENTS[name](context), 1 if version.is_at_least(_LIFETIME_VERSION) else 0)


def _credentials(context: MechanismContext) -> tuple[str, str]:
    """Raises ConfigError."""
    username, password = context.options.get("username"), context.options.get("password")
    if not username or not password:
        setting = context.values.setting_name(JAAS, context.mechanism)
        raise ConfigError(f"{setting}: username and password are needed, with which this broker connects to others")
    return username, password

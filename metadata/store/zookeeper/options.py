"""The options of the ZooKeeper store in the settings: servers, time limits, access lists, SASL.

Rules: pure. The caller makes the context of TLS, if the settings ask for it.
Source: Kafka KafkaConfig, KafkaServer.zkClientConfigFromKafkaConfig.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from config.broker import BrokerSettings
from config.errors import ConfigError
from metadata.store.zookeeper.ensemble import ConnectString
from metadata.store.zookeeper.sasl import SaslCredentials
from metadata.store.zookeeper.session import IN_FLIGHT_REQUESTS_MAX


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """`authentications` are (scheme, credentials) of ZooKeeper's addauth."""

    connect: ConnectString
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    is_secure: bool = False
    in_flight_requests_max: int = IN_FLIGHT_REQUESTS_MAX
    authentications: tuple[tuple[str, bytes], ...] = ()
    sasl: SaslCredentials | None = None
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, settings: BrokerSettings, tls: ssl.SSLContext | None) -> ZooKeeperOptions:
        """Read the settings. `tls` is what `zookeeper.ssl.*` ask for. Requests in flight are bounded in bytes, and by
        `zookeeper.max.in.flight.requests` if it is set. Raises ConfigError."""
        assert settings.zookeeper_connect is not None, "without zookeeper.connect there is no ensemble"
        sasl = _sasl(settings)
        is_known = sasl is not None or (tls is not None and settings.zookeeper_ssl_keystore_location is not None)
        if settings.zookeeper_set_acl and not is_known:
            raise ConfigError(
                "zookeeper.set.acl=true needs an identity: barnabas.zookeeper.sasl.username and .password, or "
                "zookeeper.ssl.client.enable with zookeeper.ssl.keystore.location"
            )
        is_bound_given = "zookeeper.max.in.flight.requests" in settings.given
        timeout_ms = settings.zookeeper_session_timeout_ms
        return cls(
            connect=ConnectString.parse(settings.zookeeper_connect),
            session_timeout_ms=timeout_ms,
            connection_timeout_ms=settings.zookeeper_connection_timeout_ms or timeout_ms,
            is_secure=settings.zookeeper_set_acl,
            in_flight_requests_max=(
                settings.zookeeper_max_in_flight_requests if is_bound_given else IN_FLIGHT_REQUESTS_MAX
            ),
            sasl=sasl,
            tls=tls,
        )


def _sasl(settings: BrokerSettings) -> SaslCredentials | None:
    username, password = settings.barnabas_zookeeper_sasl_username, settings.barnabas_zookeeper_sasl_password
    if (username is None) != (password is None):
        raise ConfigError("barnabas.zookeeper.sasl.username and barnabas.zookeeper.sasl.password go together")
    return None if username is None or password is None else SaslCredentials(username, password.value)

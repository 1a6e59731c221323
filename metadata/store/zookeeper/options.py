"""The options of the ZooKeeper store in the settings: servers, time limits, access lists, SASL, TLS.

Rules: an unsupported setting is refused by name, never ignored. Key and trust stores are PEM files: Java's
own formats are not read.
Source: Kafka KafkaConfig (zkTlsClientAuthEnabled), KafkaServer.zkClientConfigFromKafkaConfig; ZooKeeper X509Util.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

from config.broker import BrokerSettings
from config.errors import ConfigError
from metadata.store.zookeeper.ensemble import ConnectString
from metadata.store.zookeeper.sasl import SaslCredentials
from metadata.store.zookeeper.session import IN_FLIGHT_REQUESTS_MAX
from runtime.tls.network import TlsFiles, client_context

_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


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
    def of(cls, settings: BrokerSettings) -> ZooKeeperOptions:
        """Read the settings. Requests in flight are bounded in bytes, and by `zookeeper.max.in.flight.requests` if it is set.
        Raises ConfigError."""
        assert settings.zookeeper_connect is not None, "without zookeeper.connect there is no ensemble"
        sasl, tls = _sasl(settings), _tls(settings)
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


def _tls(settings: BrokerSettings) -> ssl.SSLContext | None:
    if not settings.zookeeper_ssl_client_enable:
        return None
    for name, is_asked in (
        ("zookeeper.ssl.cipher.suites", settings.zookeeper_ssl_cipher_suites is not None),
        ("zookeeper.ssl.crl.enable", settings.zookeeper_ssl_crl_enable),
        ("zookeeper.ssl.ocsp.enable", settings.zookeeper_ssl_ocsp_enable),
    ):
        if is_asked:
            raise ConfigError(f"{name} is not supported")
    trusted, own = settings.zookeeper_ssl_truststore_location, settings.zookeeper_ssl_keystore_location
    _require_pem("zookeeper.ssl.truststore", trusted, settings.zookeeper_ssl_truststore_type)
    _require_pem("zookeeper.ssl.keystore", own, settings.zookeeper_ssl_keystore_type)
    password = settings.zookeeper_ssl_keystore_password
    versions = _tls_versions(settings.zookeeper_ssl_enabled_protocols or tuple(_TLS_VERSIONS))
    try:
        return client_context(
            TlsFiles(trusted, own, None if password is None else password.value),
            min_version=min(versions),
            max_version=max(versions),
            checks_host=settings.zookeeper_ssl_endpoint_identification_algorithm.upper() == "HTTPS",
        )
    except OSError as error:
        raise ConfigError(f"TLS towards ZooKeeper: {trusted or 'system authorities'}, {own}: {error}") from error


def _tls_versions(names: tuple[str, ...]) -> list[ssl.TLSVersion]:
    unknown = [name for name in names if name not in _TLS_VERSIONS]
    if unknown:
        raise ConfigError(f"zookeeper.ssl.enabled.protocols={','.join(names)}: {unknown[0]} is not supported")
    return [_TLS_VERSIONS[name] for name in names]


def _require_pem(prefix: str, location: str | None, kind: str | None) -> None:
    """Return the type of a store; without a setting it depends on the file's name, as in ZooKeeper."""
    if location is not None and (kind or location.rpartition(".")[2]).upper() != "PEM":
        raise ConfigError(
            f"{prefix}.location={location}: a PEM file is needed (with {prefix}.type=PEM or the name *.pem)"
        )

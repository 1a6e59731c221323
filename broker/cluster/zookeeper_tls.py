"""TLS towards ZooKeeper, from the settings `zookeeper.ssl.*`.

Rules: an unsupported setting is refused by name, never ignored. Files are read at the start only. The password of a store is
that of its private key, too, as in ZooKeeper.
Source: Kafka KafkaConfig (zkTlsClientAuthEnabled), KafkaServer.zkClientConfigFromKafkaConfig; ZooKeeper X509Util.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from config.errors import ConfigError
from runtime.tls.context import TlsMaterial, client_context_of
from runtime.tls.stream import reason_of_failure
from security.tls.store_settings import StoreSettings, checked_kind, read_certificates, read_keys

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from config.definition import Password
    from runtime.disk.filesystem import FileSystem

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def zookeeper_tls(settings: BrokerSettings, filesystem: FileSystem) -> ssl.SSLContext | None:
    """Return the context of connections to ZooKeeper, None without TLS. Raises ConfigError."""
    if not settings.zookeeper_ssl_client_enable:
        return None
    for name, is_asked in (
        ("zookeeper.ssl.cipher.suites", settings.zookeeper_ssl_cipher_suites is not None),
        ("zookeeper.ssl.crl.enable", settings.zookeeper_ssl_crl_enable),
        ("zookeeper.ssl.ocsp.enable", settings.zookeeper_ssl_ocsp_enable),
    ):
        if is_asked:
            raise ConfigError(f"{name} is not supported")
    trust_store = _store(
        "zookeeper.ssl.truststore",
        settings.zookeeper_ssl_truststore_location,
        settings.zookeeper_ssl_truststore_type,
        settings.zookeeper_ssl_truststore_password,
    )
    key_store = _store(
        "zookeeper.ssl.keystore",
        settings.zookeeper_ssl_keystore_location,
        settings.zookeeper_ssl_keystore_type,
        settings.zookeeper_ssl_keystore_password,
    )
    keys = None if key_store is None else read_keys(key_store, filesystem.read_bytes)
    material = TlsMaterial(
        None if keys is None else keys.as_pem(),
        None if trust_store is None else read_certificates(trust_store, filesystem.read_bytes),
        _versions(settings.zookeeper_ssl_enabled_protocols or _VERSIONS),
        other_keys=() if keys is None else keys.other_pems,
    )
    checks_host = settings.zookeeper_ssl_endpoint_identification_algorithm.upper() == "HTTPS"
    try:
        return client_context_of(material, checks_host=checks_host)
    except ssl.SSLError as error:
        named = [store.where for store in (trust_store, key_store) if store is not None]
        raise ConfigError(f"TLS towards ZooKeeper: {', '.join(named)}: {reason_of_failure(error)}") from error


def _store(prefix: str, location: str | None, kind: str | None, password: Password | None) -> StoreSettings | None:
    if location is None:
        return None
    if kind is not None:
        checked_kind(f"{prefix}.type", kind)
    setting, secret = f"{prefix}.password", None if password is None else password.value
    return StoreSettings(
        f"{prefix}.location", location, secret, secret, password_setting=setting, key_password_setting=setting
    )


def _versions(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise ConfigError(f"zookeeper.ssl.enabled.protocols={','.join(names)}: {unknown[0]} is not supported")
    return tuple(version for version in _VERSIONS if version in names)

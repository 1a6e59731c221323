"""The TLS settings of one listener, checked: where its stores are, which protocols and suites it allows, whom it asks.

Pure. A listener's own settings, `listener.name.<listener>.ssl.*`, come before the general ones. `ssl.client.auth` without the
listener's prefix applies to SSL listeners only: with SASL_SSL, clients show who they are by SASL.
Every error names the setting. Old protocols stop the start; engine factories and providers of Java have stopped it before
(`config.java_classes`).
Source: Kafka SslConfigs, DefaultSslEngineFactory, ChannelBuilders.serverChannelBuilder; KIP-651.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config.definition import Password
from config.errors import ConfigError
from security.tls.cipher_suites import ChosenSuites, chosen_suites
from security.tls.store_settings import StoreSettings, StoreTexts, key_store, trust_store

if TYPE_CHECKING:
    from config.listener_values import ListenerValues

# The newest version that each value of ssl.protocol allows, if ssl.enabled.protocols names none.
_PROTOCOLS = {"TLS": "TLSv1.3", "TLSV1.3": "TLSv1.3", "TLSV1.2": "TLSv1.2"}
_VERSIONS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(enum.Enum):
    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class SslSettings:
    """`trusted` is None where the authorities of the operating system are trusted."""

    listener: str
    keys: StoreSettings | None
    trusted: StoreSettings | None
    client_auth: ClientAuth
    versions: tuple[str, ...]
    suites: ChosenSuites
    checks_host: bool
    allows_names: bool
    allows_alternatives: bool

    @classmethod
    def of(cls, values: ListenerValues, *, has_sasl: bool) -> SslSettings:
        """Read the settings of a listener. Raises ConfigError."""
        texts = _texts(values)
        try:
            suites = chosen_suites(tuple(filter(None, values.value("ssl.cipher.suites"))))
        except ValueError as error:
            raise ConfigError(f"listener {values.listener}: {error}") from error
        return cls(
            listener=values.listener,
            keys=key_store(texts),
            trusted=trust_store(texts),
            client_auth=_client_auth(values, has_sasl=has_sasl),
            versions=_versions(values, suites),
            suites=suites,
            checks_host=_checks_host(values),
            allows_names=values.value("ssl.allow.dn.changes"),
            allows_alternatives=values.value("ssl.allow.san.changes"),
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its stores."""
        return tuple(store.location for store in (self.keys, self.trusted) if store is not None and store.location)


def _client_auth(values: ListenerValues, *, has_sasl: bool) -> ClientAuth:
    is_own = values.has_own("ssl.client.auth")
    return ClientAuth.NONE if has_sasl and not is_own else ClientAuth(values.value("ssl.client.auth"))


def _checks_host(values: ListenerValues) -> bool:
    algorithm = values.value("ssl.endpoint.identification.algorithm")
    if algorithm and algorithm.lower() != "https":
        name = values.shown_name("ssl.endpoint.identification.algorithm")
        raise ConfigError(f"{name}={algorithm} must be https, or empty for no check")
    return bool(algorithm)


def _versions(values: ListenerValues, suites: ChosenSuites) -> tuple[str, ...]:
    protocol = values.value("ssl.protocol")
    newest = _PROTOCOLS.get(protocol.upper())
    if newest is None:
        raise ConfigError(f"{values.shown_name('ssl.protocol')}={protocol} must be one of TLSv1.3, TLSv1.2, TLS")
    name = values.shown_name("ssl.enabled.protocols")
    given = tuple(filter(None, values.value("ssl.enabled.protocols")))
    unknown = [version for version in given if version not in _VERSIONS]
    if unknown:
        raise ConfigError(
            f"{name}={','.join(given)}: {', '.join(unknown)} is not supported; {' and '.join(_VERSIONS)} are"
        )
    allowed = given or _VERSIONS[: _VERSIONS.index(newest) + 1]
    has_suites = {"TLSv1.2": suites.has_tls_1_2, "TLSv1.3": suites.has_tls_1_3}
    usable = tuple(version for version in _VERSIONS if version in allowed and has_suites[version])
    if not usable:
        suites_name = values.shown_name("ssl.cipher.suites")
        raise ConfigError(f"{suites_name} has no suite of the protocols in {name}={','.join(allowed)}")
    return usable


def _texts(values: ListenerValues) -> StoreTexts:
    def text(name: str) -> str | None:
        value = values.value(name)
        return value.value if isinstance(value, Password) else value

    return StoreTexts(text, values.shown_name)

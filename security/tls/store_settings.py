"""The settings that name a key store or a trust store, checked, and the reading of what they name.

Kafka has these names on listeners (`ssl.keystore.location`), and in the options of an OAUTHBEARER login module. What a store
is, its first bytes decide; its type is checked, and matters where PEM is in line.

Pure: the caller reads files. Rules: every error names the setting, and the file; an error about a password names the setting of
that password. Secrets are in no error and no repr.
Source: Kafka SslConfigs, DefaultSslEngineFactory; KIP-651.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from config.errors import ConfigError
from runtime.error_texts import reason_of
from security.stores.entries import PasswordError
from security.stores.forms import JKS, PEM, PKCS12
from security.tls.key_store import (
    KeyStore,
    read_key_store,
    read_pem_certificates,
    read_pem_keys,
    read_trust_store,
)

_KINDS: Final = (JKS, PKCS12, PEM, "JCEKS")
"""JCEKS is a type under which Java reads JKS, too."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A store, in a file (`location`) or in line: `key` with `certificates`, or these alone for a trust store. `setting` is the
    name of the setting that says where it is; the names of the passwords' settings are for errors."""

    setting: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    password_setting: str = ""
    key_password_setting: str = ""

    @property
    def where(self) -> str:
        """The setting, and the file; a secret in line is not shown."""
        return self.setting if self.location is None else f"{self.setting}={self.location}"


@dataclass(frozen=True, slots=True)
class StoreTexts:
    """Where settings come from: `text` returns the value of a name such as ssl.keystore.location, and `shown` the name that
    the user gave it."""

    text: Callable[[str], str | None]
    shown: Callable[[str], str]


def checked_kind(setting: str, given: str) -> str:
    """Return the type of a store in capitals. Raises ConfigError."""
    kind = given.upper()
    if kind not in _KINDS:
        raise ConfigError(
            f"{setting}={given} must be JKS, PKCS12 or PEM; keytool -importkeystore converts other stores"
        )
    return kind


def key_store(texts: StoreTexts) -> StoreSettings | None:
    """Return what `ssl.keystore.*` and `ssl.key.password` name. Raises ConfigError."""
    location, password = texts.text("ssl.keystore.location"), texts.text("ssl.keystore.password")
    key, chain = texts.text("ssl.keystore.key"), texts.text("ssl.keystore.certificate.chain")
    key_password = texts.text("ssl.key.password")
    kind = checked_kind(texts.shown("ssl.keystore.type"), texts.text("ssl.keystore.type") or JKS)
    key_setting = texts.shown("ssl.key.password")
    if key is None and chain is not None:
        raise ConfigError("SSL certificate chain is specified, but private key is not specified")
    if key is not None:
        if kind != PEM:
            raise ConfigError(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
        if chain is None:
            raise ConfigError("SSL private key is specified, but certificate chain is not specified.")
        if location is not None:
            raise ConfigError("Both SSL key store location and separate private key are specified.")
        if password is not None:
            raise ConfigError(
                "SSL key store password cannot be specified with PEM format, only key password may be specified."
            )
        setting = texts.shown("ssl.keystore.key")
        return StoreSettings(
            setting, key_password=key_password, key=key, certificates=chain, key_password_setting=key_setting
        )
    if location is None:
        if password is not None:
            raise ConfigError("SSL key store is not specified, but key store password is specified.")
        return None
    if kind == PEM and password is not None:
        raise ConfigError(
            "SSL key store password cannot be specified with PEM format, only key password may be specified"
        )
    if kind != PEM and password is None:
        raise ConfigError("SSL key store is specified, but key store password is not specified.")
    setting, password_setting = texts.shown("ssl.keystore.location"), texts.shown("ssl.keystore.password")
    return StoreSettings(
        setting, location, password, key_password, password_setting=password_setting, key_password_setting=key_setting
    )


def trust_store(texts: StoreTexts) -> StoreSettings | None:
    """Return what `ssl.truststore.*` names. Raises ConfigError."""
    location, password = texts.text("ssl.truststore.location"), texts.text("ssl.truststore.password")
    certificates = texts.text("ssl.truststore.certificates")
    kind = checked_kind(texts.shown("ssl.truststore.type"), texts.text("ssl.truststore.type") or JKS)
    if certificates is not None:
        if kind != PEM:
            raise ConfigError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if location is not None:
            raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
        if password is not None:
            raise ConfigError("SSL trust store password cannot be specified for PEM format.")
        return StoreSettings(texts.shown("ssl.truststore.certificates"), certificates=certificates)
    if location is None:
        if password is not None:
            raise ConfigError("SSL trust store is not specified, but trust store password is specified.")
        return None
    if kind == PEM and password is not None:
        raise ConfigError("SSL trust store password cannot be specified for PEM format.")
    setting, password_setting = texts.shown("ssl.truststore.location"), texts.shown("ssl.truststore.password")
    return StoreSettings(setting, location, password, password_setting=password_setting)


# --- what they name ---


def read_keys(store: StoreSettings, read_file: Callable[[str], bytes]) -> KeyStore:
    """Return the key of a store and its chain. `read_file` raises OSError. Raises ConfigError."""
    with _explained(store):
        if store.key is not None:
            return read_pem_keys(store.key, store.certificates or "", store.key_password)
        assert store.location is not None
        return read_key_store(read_file(store.location), store.password, store.key_password)


def read_certificates(store: StoreSettings, read_file: Callable[[str], bytes]) -> tuple[bytes, ...]:
    """Return the trusted certificates of a store in DER form. `read_file` raises OSError. Raises ConfigError."""
    with _explained(store):
        if store.certificates is not None:
            return read_pem_certificates(store.certificates)
        assert store.location is not None
        return read_trust_store(read_file(store.location), store.password)


@contextmanager
def _explained(store: StoreSettings) -> Iterator[None]:
    """Raises ConfigError in place of what reading a store raises."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{store.where}: {reason_of(error)}") from error
    except PasswordError as error:
        setting = store.key_password_setting if error.of_key else store.password_setting
        raise ConfigError(f"{store.where}: {error}" + (f" (see {setting})" if setting else "")) from None
    except ValueError as error:
        raise ConfigError(f"{store.where}: {error}") from None

"""The files that a client's settings name: properties files, key stores, and the contexts of TLS made of them.

Errors: SettingsError for a file that cannot be read or used, which no repetition mends; the text names the setting.
Source: Kafka DefaultSslEngineFactory; KIP-297, KIP-421 (config providers), KIP-651.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from client.settings.values import KeySettings, SettingsError, StoreSource, TlsSettings, TrustSettings
from config.errors import ConfigError
from config.providers import PROVIDERS, resolve
from config.sources import read_properties
from runtime.tls.context import TlsMaterial, client_context_of
from security.tls.key_store import KeyStore, read_key_store, read_pem_certificates, read_pem_keys, read_trust_store

T = TypeVar("T")


class OsFiles:
    """The files that config providers may read: those of this machine."""

    def read_bytes(self, path: str) -> bytes:
        """Raises OSError."""
        with open(path, "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)


def read_properties_file(path: str) -> dict[str, str]:
    """Return the properties of a file, with what config providers put in the place of references. Raises SettingsError."""
    try:
        properties = read_properties(OsFiles().read_bytes(path).decode("latin-1"))
        if PROVIDERS in properties:
            properties, _ = resolve(properties, os.environ, OsFiles(), lambda _name: True)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, ConfigError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    return properties


def read_tls(tls: TlsSettings) -> TlsMaterial:
    """Read the stores of a client. Raises SettingsError."""
    trusted = None if tls.trusted is None else _read_trusted(tls.trusted)
    if tls.keys is None:
        return TlsMaterial(None, trusted, tls.versions, tls.ciphers)
    keys = _read_keys(tls.keys)
    return TlsMaterial(keys.as_pem(), trusted, tls.versions, tls.ciphers, keys.other_pems)


def context_of(tls: TlsSettings, material: TlsMaterial | None = None) -> ssl.SSLContext:
    """Return the context of a client's connections; `material` is what `read_tls` returned before. Raises SettingsError."""
    material = material or read_tls(tls)
    try:
        context = client_context_of(material, checks_host=tls.checks_host)
    except ssl.SSLError as error:
        reason = str(getattr(error, "reason", None) or error.args[-1])
        named = None if "cipher" in reason.lower() else tls.keys or tls.trusted
        raise SettingsError(f"{'ssl.cipher.suites' if named is None else named.store.setting}: {reason}") from error
    if not tls.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    return context


def _read_keys(keys: KeySettings) -> KeyStore:
    if keys.key is None:
        return _parsed(keys.store, lambda data: read_key_store(data, keys.password, keys.key_password))
    chain = _parsed(keys.store, lambda data: data.decode("utf-8", "replace"))
    return _parsed(keys.key, lambda data: read_pem_keys(data.decode("utf-8", "replace"), chain, keys.key_password))


def _read_trusted(trusted: TrustSettings) -> tuple[bytes, ...]:
    source = trusted.store
    if source.location is None:
        return _parsed(source, _certificates_of)
    if not os.path.isdir(source.location):
        return _parsed(source, lambda data: read_trust_store(data, trusted.password))
    found: dict[bytes, None] = {}
    for name in sorted(os.listdir(source.location)):
        path = os.path.join(source.location, name)
        if os.path.isfile(path):
            text = _parsed(replace(source, location=path), lambda data: data.decode("utf-8", "replace"))
            if "-----BEGIN" in text:
                found |= dict.fromkeys(_parsed(StoreSource(source.setting, text=text), _certificates_of))
    if not found:
        raise SettingsError(f"{source.setting}={source.location}: no file of this folder has a certificate in PEM form")
    return tuple(found)


def _certificates_of(data: bytes) -> tuple[bytes, ...]:
    return read_pem_certificates(data.decode("utf-8", "replace"))


def _parsed(source: StoreSource, parse: Callable[[bytes], T]) -> T:
    """Raises SettingsError."""
    shown = source.setting if source.location is None else f"{source.setting}={source.location}"
    try:
        data = (source.text or "").encode() if source.location is None else OsFiles().read_bytes(source.location)
        return parse(data)
    except ImportError:
        raise SettingsError(
            f"{shown}: this kind of store needs the package cryptography: pip install cryptography"
        ) from None
    except OSError as error:
        raise SettingsError(f"{shown}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{shown}: {error}") from None

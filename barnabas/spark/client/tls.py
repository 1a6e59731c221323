"""TLS of a client: the context from the stores that its settings name.

Errors: SourceOptionError for a store that cannot be read, which no repetition mends.
Source: Kafka DefaultSslEngineFactory; KIP-651.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.client.security_settings import ClientStore, ClientTls
from runtime.tls.context import TlsMaterial, client_context_of
from security.key_store import (
    KeyStore,
    read_pem_certificates,
    read_pem_keys,
    read_pkcs12_certificates,
    read_pkcs12_keys,
)


def context_of(settings: ClientTls) -> ssl.SSLContext:
    """Read the stores. Raises SourceOptionError."""
    keys = None if settings.keys is None else _read(settings.keys, is_key=True).as_pem()
    trusted = None if settings.trusted is None else _read(settings.trusted, is_key=False).chain
    try:
        return client_context_of(TlsMaterial(keys, trusted, settings.versions), checks_host=settings.checks_host_name)
    except ssl.SSLError as error:
        named = settings.keys or settings.trusted
        raise SourceOptionError(f"{named.setting if named else 'TLS'}: {error.reason or error}") from error


def _read(store: ClientStore, *, is_key: bool) -> KeyStore:
    """The store; one of trusted certificates has an empty key."""
    try:
        data = b"" if store.location is None else Path(store.location).read_bytes()
        if store.kind == "PKCS12":
            if is_key:
                return read_pkcs12_keys(data, store.password or "", store.key_password)
            return KeyStore(b"", read_pkcs12_certificates(data, store.password))
        text = data.decode("utf-8", "replace")
        certificates = text if store.certificates is None else store.certificates
        if is_key:
            return read_pem_keys(text if store.key is None else store.key, certificates, store.key_password)
        return KeyStore(b"", read_pem_certificates(certificates))
    except ImportError:
        raise SourceOptionError(
            f"{store.setting}: PKCS12 and encrypted keys need the package cryptography: pip install cryptography"
        ) from None
    except OSError as error:
        raise SourceOptionError(f"{store.setting}: {store.location}: {error.strerror}") from error
    except ValueError as error:
        raise SourceOptionError(f"{store.setting}: {error}") from None

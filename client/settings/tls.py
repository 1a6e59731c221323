"""The settings of TLS: stores, versions, ciphers, and what is checked. Pure.

Rules: the form of a store is seen in its first bytes, so that `ssl.*.type` says nothing but PEM in line. No error has a secret.
Source: Kafka SslConfigs, DefaultSslEngineFactory; KIP-651; librdkafka CONFIGURATION.md.
"""

from __future__ import annotations

from client.settings.given import Given
from client.settings.values import TLS_VERSIONS, KeySettings, SettingsError, StoreSource, TlsSettings, TrustSettings
from security.tls.cipher_suites import chosen_suites

_TRUSTED, _TRUSTED_TEXT = "ssl.truststore.location", "ssl.truststore.certificates"
_KEYS, _CHAIN, _KEY = "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"
_CHAIN_FILE, _KEY_FILE = "ssl.certificate.location", "ssl.key.location"
_PROBE = "probe"
_PROTOCOLS = {"TLS": "TLSv1.3", "TLSV1.3": "TLSv1.3", "TLSV1.2": "TLSv1.2"}
"""The newest version that each value of ssl.protocol allows."""


def parse_tls(given: Given) -> TlsSettings:
    """Raises SettingsError."""
    checks_certificate = given.boolean("enable.ssl.certificate.verification", default=True)
    algorithm = given.choice("ssl.endpoint.identification.algorithm", ("https", "none"))
    is_off = algorithm == "none" or given.is_empty("ssl.endpoint.identification.algorithm")
    ciphers, versions = _ciphers(given), _versions(given)
    return TlsSettings(
        trusted=_trusted(given),
        keys=_keys(given),
        versions=tuple(version for version in versions if ciphers is None or version in ciphers[1]),
        ciphers=None if ciphers is None else ciphers[0],
        checks_certificate=checks_certificate,
        checks_host=checks_certificate and not is_off,
    )


def _versions(given: Given) -> tuple[str, ...]:
    protocol = given.choice("ssl.protocol", ("TLSv1.3", "TLSv1.2", "TLS")) or "TLS"
    enabled = given.words("ssl.enabled.protocols")
    newest = TLS_VERSIONS.index(_PROTOCOLS[protocol.upper()])
    found = tuple(each for each in TLS_VERSIONS[: newest + 1] if each in (enabled or TLS_VERSIONS))
    if enabled and not any(each in TLS_VERSIONS for each in enabled):
        raise SettingsError(f"{given.shown('ssl.enabled.protocols')} has none of {', '.join(TLS_VERSIONS)}")
    return found or tuple(each for each in TLS_VERSIONS if each in enabled)


def _ciphers(given: Given) -> tuple[str | None, tuple[str, ...]] | None:
    """Return OpenSSL's names of the suites of TLS 1.2, and the versions that are left; None where nothing is chosen."""
    names = given.words("ssl.cipher.suites")
    if not names:
        return None
    if not any(name.startswith("TLS_") for name in names):
        return ":".join(names), TLS_VERSIONS  # in OpenSSL's form, as librdkafka takes them
    try:
        chosen = chosen_suites(names)
    except ValueError as error:
        raise SettingsError(f"{given.shown('ssl.cipher.suites')}: {error}") from None
    has = {"TLSv1.2": chosen.has_tls_1_2, "TLSv1.3": chosen.has_tls_1_3}
    return chosen.ciphers, tuple(version for version in TLS_VERSIONS if has[version])


def _trusted(given: Given) -> TrustSettings | None:
    source = _source(given, _TRUSTED, _TRUSTED_TEXT, "ssl.truststore.type")
    password = given.secret("ssl.truststore.password")
    if source is None:
        if password is not None:
            raise SettingsError(f"{given.shown('ssl.truststore.password')} needs {given.shown(_TRUSTED)}")
        return None
    if source.location == _PROBE:
        return None  # librdkafka's word for the authorities of the operating system
    return TrustSettings(source, password)


def _keys(given: Given) -> KeySettings | None:
    password, key_password = given.secret("ssl.keystore.password"), given.secret("ssl.key.password")
    chain = _source(given, _CHAIN_FILE, _CHAIN, "ssl.keystore.type")
    key = _source(given, _KEY_FILE, _KEY, "ssl.keystore.type")
    location = given.text(_KEYS)
    if location is not None:
        other = chain or key
        if other is not None:
            raise SettingsError(f"{given.shown(_KEYS)} cannot be given beside {other.setting}")
        return KeySettings(StoreSource(given.shown(_KEYS), location=location), None, password, key_password)
    if password is not None:
        raise SettingsError(f"{given.shown('ssl.keystore.password')} needs {given.shown(_KEYS)}")
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        found = chain or key
        assert found is not None
        missing = {_CHAIN_FILE: _KEY_FILE, _KEY_FILE: _CHAIN_FILE, _CHAIN: _KEY, _KEY: _CHAIN}
        needed = next(other for name, other in missing.items() if given.shown(name) == found.setting)
        raise SettingsError(f"{found.setting} and {given.shown(needed)} need each other")
    return KeySettings(chain, key, None, key_password)


def _source(given: Given, location: str, text: str, kind: str) -> StoreSource | None:
    """Return what is in a file or in line. Raises SettingsError for both."""
    in_file, in_line = given.text(location), given.text(text)
    if in_line is None:
        return None if in_file is None else StoreSource(given.shown(location), location=in_file)
    if in_file is not None:
        raise SettingsError(f"{given.shown(location)} cannot be given beside {given.shown(text)}")
    if (given.text(kind) or "PEM").upper() != "PEM":
        raise SettingsError(f"{given.shown(text)} is PEM, but {given.shown(kind)} is {given.text(kind)}")
    return StoreSource(given.shown(text), text=in_line)

"""The options `kafka.security.protocol`, `kafka.ssl.*` and `kafka.sasl.*`: how the client is secured. Pure.

Names and forms are those of Kafka's clients, so that the file of a kafka-*.sh tool works: stores are PEM, in a file or in line,
or PKCS12; a login is a JAAS configuration.

Rules: pure; nothing is read. No error contains a secret.
Source: Kafka SslConfigs, SaslConfigs, ChannelBuilders, JaasContext; the login modules of each mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.spark.client.option_values import SourceOptionError, choice, read, words
from barnabas.spark.client.security_settings import ClientLogin, ClientStore, ClientTls
from security.jaas import parse_login_modules
from security.sasl import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

SECURITY: Final = (
    "security.protocol", "sasl.jaas.config", "sasl.mechanism", "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
)  # fmt: skip
"""Names of settings, without the prefix."""
_PROTOCOLS: Final = {
    "plaintext": (False, False), "ssl": (True, False), "sasl_plaintext": (False, True), "sasl_ssl": (True, True),
}  # fmt: skip
_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    SCRAM_SHA_256: "ScramLoginModule",
    SCRAM_SHA_512: "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}
"""The login module of each mechanism that this client has."""
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def parse_security(options: Mapping[str, str]) -> tuple[ClientTls | None, ClientLogin | None]:
    """The settings among `options`, whose names are in lower case. Raises SourceOptionError."""
    has_tls, has_login = read(options, "kafka.security.protocol", choice, (False, False), _PROTOCOLS)
    for name in options:
        if name.startswith("kafka.ssl.") and "store" in name and not has_tls:
            raise SourceOptionError(f"Option {name!r} needs kafka.security.protocol SSL or SASL_SSL")
        if name.startswith("kafka.sasl.") and not has_login:
            raise SourceOptionError(f"Option {name!r} needs kafka.security.protocol SASL_SSL or SASL_PLAINTEXT")
    return _tls(options) if has_tls else None, _login(options) if has_login else None


def _tls(options: Mapping[str, str]) -> ClientTls:
    versions = read(options, "kafka.ssl.enabled.protocols", words, _VERSIONS)
    known = tuple(version for version in _VERSIONS if version in versions)
    if not known:
        raise SourceOptionError(f"kafka.ssl.enabled.protocols has none of {', '.join(_VERSIONS)}")
    return ClientTls(
        trusted=_store(options, "kafka.ssl.truststore", "certificates", None),
        keys=_store(options, "kafka.ssl.keystore", "certificate.chain", "key"),
        versions=known,
        checks_host_name=bool(options.get("kafka.ssl.endpoint.identification.algorithm", "https").strip()),
    )


def _store(options: Mapping[str, str], prefix: str, certificates: str, key: str | None) -> ClientStore | None:
    location, inline = options.get(f"{prefix}.location"), options.get(f"{prefix}.{certificates}")
    inline_key = None if key is None else options.get(f"{prefix}.{key}")
    if location is None and inline is None and inline_key is None:
        return None
    kind = options.get(f"{prefix}.type", "JKS").upper()
    if kind not in ("PEM", "PKCS12"):
        raise SourceOptionError(
            f"Option '{prefix}.type' must be PEM or PKCS12: Python reads no Java key stores. Convert it: "
            "keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12"
        )
    if location is None and kind != "PEM":
        raise SourceOptionError(f"Option '{prefix}.location' is needed: only PEM can be given in line")
    if location is not None and (inline is not None or inline_key is not None):
        raise SourceOptionError(f"Option '{prefix}.location' cannot be given beside PEM in line")
    if location is None and key is not None and (inline is None or inline_key is None):
        raise SourceOptionError(f"Options '{prefix}.key' and '{prefix}.certificate.chain' need each other")
    return ClientStore(
        setting=f"{prefix}.location" if location is not None else f"{prefix}.{certificates}",
        kind=kind,
        location=location,
        password=options.get(f"{prefix}.password"),
        key_password=options.get("kafka.ssl.key.password"),
        key=inline_key,
        certificates=inline,
    )


def _login(options: Mapping[str, str]) -> ClientLogin:
    mechanism = options.get("kafka.sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MODULES:
        raise SourceOptionError(f"kafka.sasl.mechanism is one of {', '.join(_MODULES)}, not {mechanism!r}")
    text = options.get("kafka.sasl.jaas.config")
    if text is None:
        raise SourceOptionError(f"Option 'kafka.sasl.jaas.config' is missing: {_example(mechanism)}")
    try:
        modules = parse_login_modules(text)
    except ValueError as error:
        raise SourceOptionError(f"kafka.sasl.jaas.config: {error}; valid is {_example(mechanism)}") from None
    if len(modules) != 1 or modules[0].short_name != _MODULES[mechanism]:
        found = ", ".join(module.short_name for module in modules)
        raise SourceOptionError(
            f"kafka.sasl.jaas.config of {mechanism} has one {_MODULES[mechanism]}, not {found}: {_example(mechanism)}"
        )
    given = modules[0].options
    endpoint = options.get("kafka.sasl.oauthbearer.token.endpoint.url")
    if mechanism == OAUTHBEARER:
        _check_bearer(given, endpoint)
    else:
        for name in ("username", "password"):
            if not given.get(name):
                raise SourceOptionError(f"kafka.sasl.jaas.config has no {name}: {_example(mechanism)}")
    return ClientLogin(
        mechanism=mechanism,
        options=tuple(given.items()),
        token_url=endpoint,
        name_claim=options.get("kafka.sasl.oauthbearer.sub.claim.name", "sub"),
        scope_claim=options.get("kafka.sasl.oauthbearer.scope.claim.name", "scope"),
    )


def _check_bearer(given: Mapping[str, str], endpoint: str | None) -> None:
    if endpoint is None:
        if not any(name.startswith("unsecuredLogin") for name in given):
            raise SourceOptionError(
                "OAUTHBEARER needs kafka.sasl.oauthbearer.token.endpoint.url, or a claim unsecuredLoginStringClaim_sub in "
                "kafka.sasl.jaas.config"
            )
        return
    scheme = endpoint.partition(":")[0].lower()
    if scheme not in ("file", "http", "https"):
        raise SourceOptionError("kafka.sasl.oauthbearer.token.endpoint.url is a file:, http: or https: address")
    if scheme != "file":
        for name in ("clientId", "clientSecret"):
            if not given.get(name):
                raise SourceOptionError(f"kafka.sasl.jaas.config has no {name}, which a token endpoint asks for")


def _example(mechanism: str) -> str:
    package = {PLAIN: "plain", OAUTHBEARER: "oauthbearer"}.get(mechanism, "scram")
    options = 'clientId="..." clientSecret="..."' if mechanism == OAUTHBEARER else 'username="..." password="..."'
    return f"org.apache.kafka.common.security.{package}.{_MODULES[mechanism]} required {options};"

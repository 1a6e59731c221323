"""Settings that name Java code which decides who a client is, or what is refused.

There is no Java to run. A broker that ignored such a setting would let in, or let through, what it was to keep out: so only
those values are taken that name what this broker does itself, Kafka's defaults among them, and every other one is refused.
`GUARDS` is the table, with what does the same here. The authorizer has a module of its own (`config.acl_settings`).

Rules: pure. A listener's own setting is checked like the general one, also of a listener that is not opened. A class for SASL
may belong to one mechanism: `listener.name.<listener>.<mechanism>.<setting>`.
Source: Kafka BrokerSecurityConfigs, SaslConfigs, SslConfigs, ServerConfigs, QuotaConfigs; SaslChannelBuilder, LoginManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from config.errors import ConfigError
from config.java_values import java_trim

SERVER_HANDLER = "sasl.server.callback.handler.class"
_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
UNSECURED_VALIDATOR = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
"""The handler that accepts unsigned tokens."""

_PREFIX = "listener.name."
_PASSWORD_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512")
_OWN_LOGIN = (
    "this broker logs in to others by the login module in sasl.jaas.config of the mechanism, and by OAUTHBEARER with a token "
    "from sasl.oauthbearer.token.endpoint.url"
)


@dataclass(frozen=True, slots=True)
class Guard:
    """`taken` are the values that may be set; of a SASL setting, by mechanism in lower case. `instead` says what does the
    same here."""

    taken: frozenset[str] | Mapping[str, frozenset[str]]
    instead: str

    def takes(self, value: str, mechanism: str) -> bool:
        """Return whether the setting may have that value for a mechanism; with an empty one, for any of them."""
        if isinstance(self.taken, frozenset):
            return value in self.taken
        if mechanism:
            return value in self.taken.get(mechanism, ())
        return any(value in values for values in self.taken.values())


def _handlers(package: str, *names: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for name in names)


GUARDS: Mapping[str, Guard] = {
    "principal.builder.class": Guard(
        _handlers(f"{_SECURITY}.authenticator", "DefaultKafkaPrincipalBuilder"),
        "users are named by their SASL login, and by ssl.principal.mapping.rules from their certificates",
    ),
    "create.topic.policy.class.name": Guard(
        frozenset(),
        "nothing checks topics that are created; ACLs for the operation Create say who may create topics, and of which names",
    ),
    "alter.config.policy.class.name": Guard(
        frozenset(),
        "nothing checks settings that are changed; ACLs for the operation AlterConfigs say who may change them",
    ),
    "client.quota.callback.class": Guard(
        frozenset(), "quotas are those of users, client ids and addresses: kafka-configs.sh, or barnabas quotas"
    ),
    "security.providers": Guard(frozenset(("",)), "nothing does the same; cryptography is that of OpenSSL"),
    SERVER_HANDLER: Guard(
        {
            "plain": _handlers(f"{_SECURITY}.plain.internals", "PlainServerCallbackHandler"),
            "oauthbearer": _handlers(
                _OAUTH, "OAuthBearerValidatorCallbackHandler", "secured.OAuthBearerValidatorCallbackHandler"
            )
            | {UNSECURED_VALIDATOR},
            "gssapi": _handlers(f"{_SECURITY}.authenticator", "SaslServerCallbackHandler"),
        },
        "PLAIN has the users in sasl.jaas.config of the mechanism, SCRAM those of barnabas users, and OAUTHBEARER accepts "
        "tokens signed by the keys of sasl.oauthbearer.jwks.endpoint.url",
    ),
    "sasl.client.callback.handler.class": Guard(
        _handlers(f"{_SECURITY}.authenticator", "SaslClientCallbackHandler")
        | _handlers(f"{_OAUTH}.internals", "OAuthBearerSaslClientCallbackHandler"),
        _OWN_LOGIN,
    ),
    "sasl.login.class": Guard(
        {
            **dict.fromkeys(_PASSWORD_MECHANISMS, _handlers(f"{_SECURITY}.authenticator", "DefaultLogin")),
            "oauthbearer": _handlers(f"{_OAUTH}.internals", "OAuthBearerRefreshingLogin"),
            "gssapi": _handlers(f"{_SECURITY}.kerberos", "KerberosLogin"),
        },
        _OWN_LOGIN,
    ),
    "sasl.login.callback.handler.class": Guard(
        {
            **dict.fromkeys(
                (*_PASSWORD_MECHANISMS, "gssapi"),
                _handlers(f"{_SECURITY}.authenticator", "AbstractLogin$DefaultLoginCallbackHandler"),
            ),
            "oauthbearer": _handlers(
                _OAUTH,
                "OAuthBearerLoginCallbackHandler",
                "secured.OAuthBearerLoginCallbackHandler",
                "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
            ),
        },
        _OWN_LOGIN,
    ),
    "ssl.engine.factory.class": Guard(
        _handlers(f"{_SECURITY}.ssl", "DefaultSslEngineFactory"), "TLS is that of OpenSSL, by the other settings of ssl"
    ),
    "ssl.provider": Guard(frozenset(("",)), "TLS is that of OpenSSL"),
    "ssl.secure.random.implementation": Guard(frozenset(("",)), "random numbers are those of the operating system"),
    "ssl.trustmanager.algorithm": Guard(
        frozenset(("PKIX", "SunPKIX", "X509", "X.509", "SunX509")),
        "certificates are verified by OpenSSL, against those of ssl.truststore.location",
    ),
}


def refused_java_classes(given: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yield an error for each of the given settings, by full name, that names Java code which guards something."""
    for name, text in given.items():
        found = _guard(name)
        value = java_trim(text)
        if found is not None and not found[0].takes(value, found[1]):
            yield ConfigError(
                f"{name}={value}: this broker runs no Java, and starts only without the setting; {found[0].instead}"
            )


def _guard(name: str) -> tuple[Guard, str] | None:
    """Return the row of a setting, by its full name, and the SASL mechanism that is in the name, or an empty text."""
    if not name.startswith(_PREFIX):
        guard = GUARDS.get(name)
        return None if guard is None else (guard, "")
    _, _, scoped = name.removeprefix(_PREFIX).partition(".")
    if scoped in GUARDS:
        return GUARDS[scoped], ""
    mechanism, _, setting = scoped.partition(".")
    return (GUARDS[setting], mechanism.lower()) if setting in GUARDS else None

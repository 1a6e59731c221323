"""The mechanism OAUTHBEARER of a listener: which tokens it accepts, by its settings.

Signed tokens need `sasl.oauthbearer.jwks.endpoint.url`. Unsecured tokens, which any client can write, are accepted only where
the settings name them: by an option of the login module that begins with `unsecured`, or by Kafka's handler class for them.

Rules: no IO. Every mistake in the settings is a ConfigError that names the setting.
Source: Kafka OAuthBearerValidatorCallbackHandler, OAuthBearerUnsecuredValidatorCallbackHandler; KIP-255, KIP-768.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.network.sasl.oauth_sources import KEYS_URL, TOKEN_URL, OAuthSources, no_keys
from config.errors import ConfigError
from config.java_classes import SERVER_HANDLER, UNSECURED_VALIDATOR
from security.sasl.mechanisms import OAUTHBEARER, SaslServerFactory
from security.sasl.oauth_exchange import OAuthBearerClient, OAuthBearerServer
from security.sasl.oauth_signed import ClaimRules, SignedTokenValidator
from security.sasl.oauth_token import TokenValidator
from security.sasl.oauth_unsecured import (
    UnsecuredTokenValidator,
    names_unsecured,
    unsecured_extensions,
    unsecured_token,
)

if TYPE_CHECKING:
    from config.listener_values import ListenerValues

LOGIN_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_EXTENSION: Final = "extension_"


def oauth_exchanges(
    values: ListenerValues, options: Mapping[str, str], sources: OAuthSources, wall_ms: Callable[[], int]
) -> SaslServerFactory:
    """Return what makes the exchanges of a listener. `options` are those of its login module. Raises ConfigError."""
    validator = _validator(values, options, sources, wall_ms)
    return lambda: OAuthBearerServer(validator)


def oauth_login(
    values: ListenerValues, options: Mapping[str, str], sources: OAuthSources, wall_ms: Callable[[], int]
) -> tuple[Mapping[str, str], Callable[[], str]]:
    """Return the extensions with which this broker logs in to others, and what returns the token: one from
    `sasl.oauthbearer.token.endpoint.url`, or an unsecured one that the options describe. Raises ConfigError."""
    try:
        if _value(values, TOKEN_URL) is None and names_unsecured(options):
            unsecured_token(options, wall_ms())
            token: Callable[[], str] = lambda: unsecured_token(options, wall_ms())  # noqa: E731
            extensions = unsecured_extensions(options)
        else:
            prefix = _EXTENSION
            extensions = {name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)}
            token = sources.token(values, options)
        OAuthBearerClient(token, extensions)
    except ValueError as error:
        raise ConfigError(f"{values.setting_name('sasl.jaas.config', OAUTHBEARER)}: {error}") from error
    return extensions, token


def _validator(
    values: ListenerValues, options: Mapping[str, str], sources: OAuthSources, wall_ms: Callable[[], int]
) -> TokenValidator:
    handler, url = values.of_mechanism(SERVER_HANDLER, OAUTHBEARER), _value(values, KEYS_URL)
    is_named = handler == UNSECURED_VALIDATOR or (handler is None and url is None and names_unsecured(options))
    if is_named:
        try:
            return UnsecuredTokenValidator(options, wall_ms)
        except ValueError as error:
            raise ConfigError(f"{values.setting_name('sasl.jaas.config', OAUTHBEARER)}: {error}") from error
    if url is None:
        raise ConfigError(
            f"listener {values.listener}: OAUTHBEARER needs {KEYS_URL}, the keys that sign clients' tokens; unsecured tokens "
            "are accepted if an option of the login module names them, such as unsecuredLoginStringClaim_sub"
        )
    keys = sources.keys(values, options)
    return SignedTokenValidator(
        ClaimRules(
            audiences=_value(values, "sasl.oauthbearer.expected.audience") or (),
            issuer=_value(values, "sasl.oauthbearer.expected.issuer"),
            scope_claim=_value(values, "sasl.oauthbearer.scope.claim.name"),
            name_claim=_value(values, "sasl.oauthbearer.sub.claim.name"),
            clock_skew_s=_value(values, "sasl.oauthbearer.clock.skew.seconds"),
        ),
        lambda: keys.value or no_keys(),
        wall_ms,
        lambda _key_id: keys.hurry(),
    )


def _value(values: ListenerValues, name: str) -> Any:
    return values.value_of_mechanism(name, OAUTHBEARER)

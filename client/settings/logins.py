"""The settings of logins: what each mechanism needs. Pure.

A login is a JAAS configuration of one module, as Kafka's clients have it, or settings with librdkafka's names. Bearer tokens
come from `sasl.oauthbearer.token.endpoint.url`, a file or an endpoint, or are described by the options of the module and signed
by nobody.

Rules: the mechanisms are those of `client.mechanisms`. No error contains a secret.
Source: Kafka JaasContext, PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, OAuthBearerLoginCallbackHandler,
OAuthBearerUnsecuredLoginCallbackHandler; KIP-768, KIP-1139; librdkafka CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from client.mechanisms import MECHANISMS, LoginMechanism
from client.settings.given import Given
from client.settings.names import LOGIN
from client.settings.tls import parse_tls
from client.settings.values import BearerSettings, LoginSettings, SettingsError, StoreSource, TlsSettings, TrustSettings
from security.sasl.jaas import LoginModule, parse_login_modules
from security.sasl.mechanisms import GSSAPI, PLAIN
from security.sasl.oauth_exchange import OAuthBearerClient
from security.sasl.oauth_unsecured import NAME_CLAIM as UNSECURED_NAME_CLAIM
from security.sasl.oauth_unsecured import names_unsecured, unsecured_extensions, unsecured_token
from security.sasl.scram import MECHANISMS as SCRAM
from security.sasl.scram import TOKEN_EXTENSION

JAAS: Final = "sasl.jaas.config"
MECHANISM: Final = "sasl.mechanism"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  the name of a setting
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105
_UNSECURED: Final = "sasl.oauthbearer.config"
_EXTENSION: Final = "extension_"
_USUAL: Final = BearerSettings()
_OF_NO_USER: Final = (
    MECHANISM, "https.ca.location", "https.ca.pem", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.oauthbearer.sub.claim.name",
)  # fmt: skip
"""Settings of logins that do not say who logs in."""


def parse_login(given: Given, *, needs_user: bool = True) -> LoginSettings:
    """Return the login of a client whose security protocol has SASL. Without `needs_user` it may be a mechanism alone. Raises
    SettingsError."""
    module = _module(given)
    mechanism = _mechanism(given, module)
    if module is not None and module.short_name not in (each.rpartition(".")[2] for each in mechanism.modules):
        needed = mechanism.modules[0].rpartition(".")[2]
        raise SettingsError(
            f"{given.shown(JAAS)} of {mechanism.name} has one {needed}, not {module.short_name}: {mechanism.example}"
        )
    if not needs_user and given.first_of(name for name in LOGIN if name not in _OF_NO_USER) is None:
        return LoginSettings(mechanism.name)
    options = {} if module is None else module.options
    return (_bearer_login if mechanism.takes_token else _password_login)(mechanism, given, options)


def _module(given: Given) -> LoginModule | None:
    text = given.secret(JAAS)
    if text is None:
        return None
    try:
        modules = parse_login_modules(text)
    except ValueError as error:
        raise SettingsError(f"{given.shown(JAAS)}: {error}; valid is {MECHANISMS[PLAIN].example}") from None
    if len(modules) != 1:
        raise SettingsError(f"{given.shown(JAAS)} has {len(modules)} login modules, and one is needed")
    return modules[0]


def _mechanism(given: Given, module: LoginModule | None) -> LoginMechanism:
    name, valid = given.text(MECHANISM), ", ".join(MECHANISMS)
    if name is None:
        fitting = [] if module is None else _mechanisms_of(module)
        hint = f"; {module.short_name} is that of {' and '.join(fitting)}" if module is not None and fitting else ""
        raise SettingsError(f"{given.shown(MECHANISM)} is missing: it is one of {valid}{hint}")
    if name.upper() == GSSAPI:
        raise SettingsError(f"{given.shown(MECHANISM)}=GSSAPI: this client has no Kerberos, but {valid}")
    found = MECHANISMS.get(name.upper())
    if found is None:
        raise SettingsError(f"{given.shown(MECHANISM)}={name} is not one of {valid}")
    return found


def _mechanisms_of(module: LoginModule) -> list[str]:
    usual = {each.name: each.modules[0].rpartition(".")[2] for each in MECHANISMS.values()}
    return [name for name, short_name in usual.items() if short_name == module.short_name]


# --- with a password ---


def _password_login(mechanism: LoginMechanism, given: Given, options: Mapping[str, str]) -> LoginSettings:
    username, password = (_given_once(given, options, option, f"sasl.{option}") for option in ("username", "password"))
    for option, text in (("username", username), ("password", password)):
        if text is None:
            where = given.shown(JAAS) if given.has(JAAS) else given.shown(f"sasl.{option}")
            problem = f"has no {option}" if given.has(JAAS) else "is missing"
            raise SettingsError(f"{where} {problem}: {mechanism.example}, or sasl.username and sasl.password")
    is_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return LoginSettings(mechanism.name, username or "", password or "", is_token and mechanism.name in SCRAM)


def _given_once(given: Given, options: Mapping[str, str], option: str, setting: str) -> str | None:
    """Return a text that is an option of the login module or a setting. Raises SettingsError for two."""
    texts = {text for text in (options.get(option), given.secret(setting)) if text}
    if len(texts) > 1:
        raise SettingsError(f"{given.shown(setting)} is not the {option} of {given.shown(JAAS)}: give one of them")
    return texts.pop() if texts else None


# --- with a bearer token ---


def _bearer_login(mechanism: LoginMechanism, given: Given, options: Mapping[str, str]) -> LoginSettings:
    url = given.text(TOKEN_URL)
    bearer = _unsecured(given, options) if url is None else _secured(given, options, url)
    try:
        OAuthBearerClient(str, dict(bearer.extensions))
    except ValueError as error:
        raise SettingsError(f"{given.shown(JAAS)}: {error}") from None
    return LoginSettings(mechanism.name, bearer=bearer)


def _secured(given: Given, options: Mapping[str, str], url: str) -> BearerSettings:
    scheme = url.partition(":")[0].lower()
    if scheme not in ("file", "http", "https"):
        raise SettingsError(f"{given.shown(TOKEN_URL)} is a file:, http: or https: address")
    client_id = _given_once(given, options, "clientId", _CLIENT_ID)
    secret = _given_once(given, options, "clientSecret", _CLIENT_SECRET)
    if scheme != "file":
        for option, setting, text in (("clientId", _CLIENT_ID, client_id), ("clientSecret", _CLIENT_SECRET, secret)):
            if text is None:
                raise SettingsError(
                    f"{given.shown(JAAS)} has no {option}, which a token endpoint asks for, nor is there {given.shown(setting)}"
                )
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    extensions |= _pairs(given, "sasl.oauthbearer.extensions", given.words("sasl.oauthbearer.extensions"))
    timeout_ms = given.number("sasl.login.connect.timeout.ms", _USUAL.timeout_ms, 1)
    return BearerSettings(
        url=url,
        client_id=client_id or "",
        client_secret=secret or "",
        scope=_given_once(given, options, "scope", "sasl.oauthbearer.scope"),
        encodes_header=given.boolean("sasl.oauthbearer.header.urlencode", default=False),
        name_claim=given.text("sasl.oauthbearer.sub.claim.name") or _USUAL.name_claim,
        extensions=tuple(extensions.items()),
        timeout_ms=given.number("sasl.login.read.timeout.ms", timeout_ms, 1),
        tls=_endpoint_tls(given, options),
    )


def _endpoint_tls(given: Given, options: Mapping[str, str]) -> TlsSettings:
    """How an endpoint is asked over https: the options of the login module have names as settings have them."""
    for name in ("location", "pem"):
        setting = f"https.ca.{name}"
        text = given.text(setting)
        if text is not None:
            shown = given.shown(setting)
            source = StoreSource(shown, location=text) if name == "location" else StoreSource(shown, text=text)
            return TlsSettings(TrustSettings(source))
    return parse_tls(Given({name: text for name, text in options.items() if name.startswith("ssl.")}))


def _unsecured(given: Given, options: Mapping[str, str]) -> BearerSettings:
    setting = JAAS
    if given.has(_UNSECURED):
        setting, options = _UNSECURED, _librdkafka_options(given)
    if not names_unsecured(options):
        raise SettingsError(
            f"OAUTHBEARER needs {given.shown(TOKEN_URL)}, or a claim unsecuredLoginStringClaim_sub in {given.shown(JAAS)}"
        )
    try:
        unsecured_token(options, 0)
    except ValueError as error:
        raise SettingsError(f"{given.shown(setting)}: {error}") from None
    return BearerSettings(
        name_claim=options.get(UNSECURED_NAME_CLAIM, "").strip() or _USUAL.name_claim,
        unsecured=tuple(options.items()),
        extensions=tuple(unsecured_extensions(options).items()),
    )


def _librdkafka_options(given: Given) -> dict[str, str]:
    """Return `sasl.oauthbearer.config` as options of Kafka's login module. Raises SettingsError."""
    pairs = _pairs(given, _UNSECURED, (given.text(_UNSECURED) or "").split())
    name_claim = pairs.pop("principalClaimName", "sub")
    scope_claim = pairs.pop("scopeClaimName", "scope")
    options = {UNSECURED_NAME_CLAIM: name_claim}
    for name, text in pairs.items():
        if name == "principal":
            options[f"unsecuredLoginStringClaim_{name_claim}"] = text
        elif name == "scope":
            options[f"unsecuredLoginListClaim_{scope_claim}"] = "," + text
        elif name == "lifeSeconds":
            options["unsecuredLoginLifetimeSeconds"] = text
        elif name.startswith(_EXTENSION):
            options[f"unsecuredLoginExtension_{name.removeprefix(_EXTENSION)}"] = text
        else:
            raise SettingsError(f"{given.shown(_UNSECURED)} has {name}, which is not known")
    return options


def _pairs(given: Given, setting: str, words: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Return name=value words as a table. Raises SettingsError."""
    if any("=" not in word for word in words):
        raise SettingsError(f"{given.shown(setting)} is not of the form name=value")
    return {name: text for name, _, text in (word.partition("=") for word in words)}

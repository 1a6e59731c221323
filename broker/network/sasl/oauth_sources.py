"""What OAUTHBEARER reads from elsewhere: the keys of the providers that sign clients' tokens, and the broker's own token.

    sasl.oauthbearer.jwks.endpoint.url     file:, http: or https:, the keys
    sasl.oauthbearer.token.endpoint.url    file: the token itself; http:, https: where clientId and clientSecret get one

The options `ssl.truststore.*`, `ssl.keystore.*` and `ssl.key.password` of the login module are for https, as Apache Kafka has
them: the stores are read once.

Rules: sources are made with the settings, and read from `start` on; listeners with the same settings share one. A file that
cannot be read prevents the start, as in Apache Kafka; a provider that does not respond does not, and is asked again. Nothing
that a client sends causes more than one read in ten seconds.
Source: Kafka RefreshingHttpsJwks, JwksFileVerificationKeyResolver, FileTokenRetriever, HttpAccessTokenRetriever; KIP-768.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from config.errors import ConfigError
from runtime.documents import DocumentRequest
from runtime.refreshed import Refreshed, RefreshTimes
from runtime.tls.context import TlsMaterial, client_context_of
from security.sasl.mechanisms import OAUTHBEARER, AuthenticationFailed
from security.sasl.oauth_keys import DOCUMENT_BYTES_MAX, KeySet
from security.sasl.oauth_login import (
    TOKEN_BYTES_MAX,
    LoginToken,
    RefreshWindow,
    credentials_form,
    credentials_headers,
    granted_token,
)
from security.tls.store_settings import StoreTexts, key_store, read_certificates, read_keys, trust_store

if TYPE_CHECKING:
    from config.listener_values import ListenerValues
    from runtime.clock import Clock
    from runtime.documents import Documents
    from runtime.tasks import TaskScope

KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting
TIMEOUT_MS: Final = 10_000
# A token in a file is replaced by the writer of the file, at any time.
FILE_PAUSE_MS: Final = 60_000
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_CHECKED_NAMES: Final = "ssl.endpoint.identification.algorithm"
_NO_KEYS: Final = KeySet()


@dataclass(frozen=True, slots=True)
class _Tls:
    """Of connections by https: None for the operating system's authorities; whether names in certificates count."""

    material: TlsMaterial | None = None
    checks_host: bool = True


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where keys are, and how often they are read."""

    url: str
    refresh_ms: int
    times: RefreshTimes
    tls: _Tls


class OAuthSources:
    """Makes the sources, and starts them. `read_file` reads the stores that options name; it blocks, and raises OSError."""

    def __init__(self, documents: Documents, read_file: Callable[[str], bytes], clock: Clock, tasks: TaskScope) -> None:
        self._documents = documents
        self._read_file = read_file
        self._clock = clock
        self._tasks = tasks
        self._keys: dict[KeySource, Refreshed[KeySet]] = {}
        self._tokens: dict[str, Refreshed[LoginToken]] = {}

    # --- the keys of providers ---

    def keys(self, values: ListenerValues, options: Mapping[str, str]) -> Refreshed[KeySet]:
        """Return the keys that clients' tokens of a listener are verified with. Raises ConfigError."""
        url = _url(values, KEYS_URL)
        source = KeySource(
            url=url,
            refresh_ms=_value(values, "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            times=RefreshTimes(
                _value(values, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
                _value(values, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            ),
            tls=self._tls(url, values, options),
        )
        if source.refresh_ms <= 0:
            raise ConfigError("sasl.oauthbearer.jwks.endpoint.refresh.ms must be positive")
        if source not in self._keys:
            tls = source.tls
            request = DocumentRequest(
                source.url, DOCUMENT_BYTES_MAX, TIMEOUT_MS, tls=tls.material, checks_host=tls.checks_host
            )

            async def load() -> KeySet:
                return KeySet.parse(await self._documents.read(request))

            self._keys[source] = Refreshed(
                "token keys", load, lambda _: source.refresh_ms, source.times, self._clock, self._tasks
            )
        return self._keys[source]

    # --- the broker's own token ---

    def token(self, values: ListenerValues, options: Mapping[str, str]) -> Callable[[], str]:
        """Return a function that returns the token with which this broker logs in to others, and raises AuthenticationFailed
        while there is none. Raises ConfigError."""
        url = _url(values, TOKEN_URL)
        name_claim = _value(values, "sasl.oauthbearer.sub.claim.name")
        window = RefreshWindow(
            _value(values, "sasl.login.refresh.window.factor"),
            _value(values, "sasl.login.refresh.min.period.seconds"),
            _value(values, "sasl.login.refresh.buffer.seconds"),
        )
        is_file = urlsplit(url).scheme == "file"
        request = self._token_request(url, values, options, is_file=is_file)

        async def load() -> LoginToken:
            content = await self._documents.read(request)
            return LoginToken.parse(content, name_claim) if is_file else granted_token(content, name_claim)

        def pause_ms(token: LoginToken) -> int:
            left_ms = window.pause_ms(token, self._clock.wall_ms())
            return min(left_ms, FILE_PAUSE_MS) if is_file else left_ms

        times = RefreshTimes(
            _value(values, "sasl.login.retry.backoff.ms"), _value(values, "sasl.login.retry.backoff.max.ms")
        )
        source = self._tokens[url] = Refreshed("login token", load, pause_ms, times, self._clock, self._tasks)

        def current() -> str:
            if source.value is None:
                raise AuthenticationFailed("there is no bearer token to log in with")
            return source.value.text

        return current

    def _token_request(
        self, url: str, values: ListenerValues, options: Mapping[str, str], *, is_file: bool
    ) -> DocumentRequest:
        if is_file:
            return DocumentRequest(url, TOKEN_BYTES_MAX, TIMEOUT_MS)
        client_id, client_secret = options.get("clientId", ""), options.get("clientSecret", "")
        if not client_id or not client_secret:
            raise ConfigError(
                f"{TOKEN_URL}={url} needs the options clientId and clientSecret of the login module, for this broker's token"
            )
        tls = self._tls(url, values, options)
        return DocumentRequest(
            url,
            TOKEN_BYTES_MAX,
            _value(values, "sasl.login.read.timeout.ms") or TIMEOUT_MS,
            credentials_form(options.get("scope")),
            credentials_headers(client_id, client_secret),
            tls.material,
            tls.checks_host,
        )

    def _tls(self, url: str, values: ListenerValues, options: Mapping[str, str]) -> _Tls:
        """Read what the options of the login module name for https. Raises ConfigError."""
        if urlsplit(url).scheme != "https":
            return _Tls()
        try:
            material = _material(options, self._read_file)
        except ConfigError as error:
            raise ConfigError(f"{values.setting_name('sasl.jaas.config', OAUTHBEARER)}: {error}") from error
        return _Tls(material, options.get(_CHECKED_NAMES, "https").strip() != "")

    # --- reading ---

    async def start(self) -> None:
        """Read every source, and keep them current. Raises ConfigError for a file that cannot be read."""
        for source, keys in self._keys.items():
            await keys.start()
            _check_file(source.url, keys, KEYS_URL)
        for url, token in self._tokens.items():
            await token.start()
            _check_file(url, token, TOKEN_URL)


def _check_file(url: str, source: Refreshed[Any], setting: str) -> None:
    if source.value is None and urlsplit(url).scheme == "file":
        raise ConfigError(f"{setting}={url}: {source.last_error}")


def no_keys() -> KeySet:
    """Return the keys of a provider that has not responded yet."""
    return _NO_KEYS


def _value(values: ListenerValues, name: str) -> Any:
    return values.value_of_mechanism(name, OAUTHBEARER)


def _url(values: ListenerValues, name: str) -> str:
    """Raises ConfigError."""
    url: str | None = _value(values, name)
    try:
        parts = urlsplit(url or "")
        is_one = parts.scheme == "file" or (parts.scheme in ("http", "https") and bool(parts.hostname))
    except ValueError:
        is_one = False
    if url is None or not is_one:
        raise ConfigError(f"{name} must be a URL of a file (file:///...), http or https")
    return url


def _material(options: Mapping[str, str], read_file: Callable[[str], bytes]) -> TlsMaterial | None:
    """Read the stores that the options of a login module name; None if they name none. Raises ConfigError."""
    texts = StoreTexts(options.get, lambda name: name)
    key_settings, trust_settings = key_store(texts), trust_store(texts)
    if key_settings is None and trust_settings is None:
        return None
    keys = None if key_settings is None else read_keys(key_settings, read_file)
    material = TlsMaterial(
        None if keys is None else keys.as_pem(),
        None if trust_settings is None else read_certificates(trust_settings, read_file),
        TLS_VERSIONS,
        other_keys=() if keys is None else keys.other_pems,
    )
    try:
        client_context_of(material, checks_host=True)
    except ssl.SSLError as error:
        named = ", ".join(store.where for store in (key_settings, trust_settings) if store is not None)
        raise ConfigError(f"{named}: {error.reason or error}") from error
    return material

"""OAUTHBEARER by the settings of a listener: which tokens it accepts, where the keys come from, and what stops the start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

import pytest

from broker.network.sasl.oauth_mechanism import oauth_exchanges, oauth_login
from broker.network.sasl.oauth_sources import OAuthSources
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.listener_values import ListenerValues
from runtime.documents import DocumentRequest
from runtime.tasks import TaskScope
from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed, Identity, SaslServerFactory
from security.sasl.oauth_exchange import FirstMessage, OAuthBearerClient
from security.tls.key_store import read_pem_certificates
from tests.async_tests import played_by
from tests.doubles.clock import ManualClock
from tests.jks_writer import Entry, jks
from tests.security.sasl.bearer_tokens import NOW_S, document, rsa_key, rsa_row, signed, unsecured
from tests.tls_certificates import authority, issued

PREFIX = "listener.name.l.oauthbearer."
URL = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER = f"{PREFIX}sasl.server.callback.handler.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
KEYS = document(rsa_row(rsa_key(), kid="one"))


class Served:
    """Documents by URL; an exception is raised."""

    def __init__(self, documents: Mapping[str, bytes | OSError] | None = None) -> None:
        self.documents = dict(documents or {})
        self.requests: list[DocumentRequest] = []

    async def read(self, request: DocumentRequest) -> bytes:
        self.requests.append(request)
        found = self.documents.get(request.url, FileNotFoundError(2, "No such file", request.url))
        if isinstance(found, OSError):
            raise found
        return found


class World:
    def __init__(self, served: Served, tasks: TaskScope) -> None:
        self.served = served
        self.clock = ManualClock(NOW_S * 1000)
        self.files: dict[str, bytes] = {}
        self.sources = OAuthSources(served, self.read_file, self.clock, tasks)

    def read_file(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def values(self, given: dict[str, str], listener: str = "L") -> ListenerValues:
        return ListenerValues(BrokerSettings(given), listener)

    def exchanges(self, given: dict[str, str], listener: str = "L", **options: str) -> SaslServerFactory:
        return oauth_exchanges(self.values(given, listener), options, self.sources, self.clock.wall_ms)


def run(case: Callable[[World], Awaitable[None]], **documents: bytes | OSError) -> None:
    async def body() -> None:
        async with TaskScope("test") as tasks:
            await case(World(Served({f"file:///{name}": content for name, content in documents.items()}), tasks))

    asyncio.run(body())


def login(exchanges: SaslServerFactory, token: str) -> Identity | None:
    """Who the token lets in."""
    server = exchanges()
    server.step(FirstMessage("", token, {}).encode())
    return server.identity


@played_by(run, keys=KEYS)
async def test_signed_tokens(world: World) -> None:
    given = {
        URL: "file:///general", f"{PREFIX}{URL}": "file:///keys", f"{PREFIX}sasl.oauthbearer.sub.claim.name": "client",
        "sasl.oauthbearer.expected.audience": "kafka,other", "sasl.oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.clock.skew.seconds": "5", HANDLER: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
    }  # fmt: skip
    exchanges = world.exchanges(given)
    good = {"client": "app", "aud": "other", "iss": "me", "exp": NOW_S - 4}
    token = signed(rsa_key(), key_id="one", iat=NOW_S - 9, **good)
    assert login(exchanges, token) is None, "no keys yet"
    await world.sources.start()
    assert login(exchanges, token) == Identity(Principal("User", "app"), (NOW_S - 4) * 1000)
    for wrong in ({"aud": "x"}, {"iss": "x"}, {"exp": NOW_S - 5}, {"client": None}):
        assert login(exchanges, signed(rsa_key(), key_id="one", iat=NOW_S - 9, **{**good, **wrong})) is None
    assert login(exchanges, unsecured(client="app")) is None


@played_by(run, keys=KEYS)
async def test_listeners_with_the_same_source_share_it(world: World) -> None:
    given = {URL: "file:///keys", "listener.name.other.oauthbearer.sasl.oauthbearer.jwks.endpoint.refresh.ms": "7"}
    one, two = world.exchanges(given), world.exchanges(given, "M")
    other = world.exchanges(given, "OTHER")
    await world.sources.start()
    assert len(world.served.requests) == 2
    for each in (one, two, other):
        assert login(each, signed(rsa_key(), key_id="one")) is not None


@played_by(run, keys=KEYS)
async def test_an_unknown_key_is_looked_for_once_in_a_while(world: World) -> None:
    exchanges = world.exchanges({URL: "file:///keys"})
    await world.sources.start()
    newer = signed(rsa_key(1), key_id="two")
    world.served.documents["file:///keys"] = document(rsa_row(rsa_key(1), kid="two"))
    for after_ms, reads in ((0, 1), (9_000, 1), (1_000, 2), (10, 2)):
        world.clock.now_ms += after_ms
        assert (login(exchanges, newer) is not None) is (after_ms == 10)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(world.served.requests) == reads


def test_a_file_that_cannot_be_read_stops_the_start() -> None:
    async def case(world: World) -> None:
        world.exchanges({URL: "file:///missing"})
        with pytest.raises(ConfigError, match="file:///missing: No such file"):
            await world.sources.start()

    async def rubbish(world: World) -> None:
        world.exchanges({URL: "file:///keys"})
        with pytest.raises(ConfigError, match="no JSON"):
            await world.sources.start()

    run(case)
    run(rubbish, keys=b"rubbish")


def test_a_provider_that_does_not_respond_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async def case(world: World) -> None:
        url = "https://provider/keys"
        world.served.documents[url] = OSError(113, "unreachable")
        retries = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1"}
        exchanges = world.exchanges({URL: url, **retries})
        await world.sources.start()
        assert login(exchanges, signed(rsa_key(), key_id="one")) is None
        world.served.documents[url] = KEYS
        async with asyncio.timeout(60):
            while login(exchanges, signed(rsa_key(), key_id="one")) is None:  # noqa: ASYNC110 - the retry is in real time
                await asyncio.sleep(0.001)

    with caplog.at_level(logging.WARNING):
        run(case)
    assert "unreachable" in caplog.text


@played_by(run, keys=KEYS)
async def test_stores_of_the_login_module_are_for_https(world: World) -> None:
    """Of any form; they are read once, and matter for https alone."""
    trusted = read_pem_certificates(authority().certificate)
    world.files["/t"] = jks([Entry("ca", trusted)], "word")
    world.files["/k"] = issued("broker").both.encode()
    options = {"ssl.truststore.location": "/t", "ssl.truststore.password": "word"}
    own = {"ssl.keystore.location": "/k", "ssl.keystore.type": "PEM", "ssl.endpoint.identification.algorithm": ""}
    world.served.documents["https://provider/keys"] = KEYS
    world.exchanges({URL: "https://provider/keys"}, **options, **own)
    world.exchanges({URL: "file:///keys"}, **{**options, "ssl.truststore.location": "/none"})
    await world.sources.start()
    request, plain = world.served.requests
    assert request.tls is not None and request.tls.keys is not None
    assert (request.tls.trusted, request.checks_host, plain.tls) == (trusted, False, None)
    with pytest.raises(ConfigError, match=r"ssl.truststore.location=/t: the password of the store is wrong.*password"):
        world.exchanges({URL: "https://provider/other"}, **{**options, "ssl.truststore.password": "other"})


# --- unsecured tokens ---


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, {"unsecuredLoginStringClaim_sub": "admin"}),
        ({}, {"unsecuredValidatorRequiredScope": "a"}),
        ({HANDLER: f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"}, {}),
    ],
)
def test_unsecured_tokens_where_they_are_named(given: dict[str, str], options: dict[str, str]) -> None:
    async def case(world: World) -> None:
        exchanges = world.exchanges(given, **options)
        assert login(exchanges, unsecured(scope="a")) == Identity(Principal("User", "alice"), (NOW_S + 600) * 1000)
        assert login(exchanges, signed(rsa_key())) is None

    run(case)


@played_by(run, keys=KEYS)
async def test_keys_rule_unsecured_tokens_out(world: World) -> None:
    exchanges = world.exchanges({URL: "file:///keys"}, unsecuredLoginStringClaim_sub="admin")
    await world.sources.start()
    assert login(exchanges, unsecured()) is None
    assert login(exchanges, signed(rsa_key(), key_id="one")) is not None


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        ({}, {}, f"OAUTHBEARER needs {URL}"),
        ({HANDLER: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"}, {"unsecuredX": ""}, f"OAUTHBEARER needs {URL}"),
        ({URL: "ftp://x"}, {}, f"{URL} must be a URL"),
        ({URL: "/a/path"}, {}, f"{URL} must be a URL"),
        ({URL: "http://"}, {}, f"{URL} must be a URL"),
        ({URL: "http://[x"}, {}, f"{URL} must be a URL"),
        ({URL: "file:///k", "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, {}, "must be positive"),
        (
            {URL: "https://x"},
            {"ssl.truststore.location": "/x.jks"},
            "jaas.config: ssl.truststore.location=/x.jks: No such",
        ),
        ({URL: "https://x"}, {"ssl.truststore.type": "BKS"}, "jaas.config: ssl.truststore.type=BKS must be JKS"),
        ({URL: "https://x"}, {"ssl.keystore.location": "/x.jks"}, "key store password is not specified"),
        ({}, {"unsecuredValidatorAllowableClockSkewMs": "x"}, "AllowableClockSkewMs"),
    ],
)
def test_settings_that_stop_the_start(given: dict[str, str], options: dict[str, str], reason: str) -> None:
    async def case(world: World) -> None:
        with pytest.raises(ConfigError, match=reason):
            world.exchanges(given, **options)

    run(case)


# --- the broker's own token ---

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"


@played_by(run, token=signed(rsa_key()).encode() + b"\n")
async def test_a_token_from_a_file(world: World) -> None:
    current = world.sources.token(world.values({TOKEN_URL: "file:///token"}), {})
    with pytest.raises(AuthenticationFailed, match="no bearer token"):
        current()
    await world.sources.start()
    assert current() == signed(rsa_key())


@played_by(run)
async def test_a_token_by_client_credentials(world: World) -> None:
    url = "https://provider/token"
    world.served.documents[url] = b'{"access_token": "%b"}' % signed(rsa_key()).encode()
    options = {"clientId": "broker", "clientSecret": "s3cret", "scope": "kafka"}
    current = world.sources.token(world.values({TOKEN_URL: url, "sasl.login.read.timeout.ms": "77"}), options)
    await world.sources.start()
    assert current() == signed(rsa_key())
    (request,) = world.served.requests
    assert request.form == b"grant_type=client_credentials&scope=kafka" and request.timeout_ms == 77
    assert request.headers["Authorization"].startswith("Basic ") and "s3cret" not in repr(request)


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        ({}, {}, f"{TOKEN_URL} must be a URL"),
        ({TOKEN_URL: "https://x"}, {"clientId": "a"}, "clientId and clientSecret"),
    ],
)
def test_settings_of_the_own_token_that_stop_the_start(
    given: dict[str, str], options: dict[str, str], reason: str
) -> None:
    async def case(world: World) -> None:
        with pytest.raises(ConfigError, match=reason):
            world.sources.token(world.values(given), options)

    run(case)


@played_by(run, token=b"rubbish")
async def test_a_file_without_a_token_stops_the_start(world: World) -> None:
    world.sources.token(world.values({TOKEN_URL: "file:///token"}), {})
    with pytest.raises(ConfigError, match="three parts") as caught:
        await world.sources.start()
    assert "rubbish" not in str(caught.value)


# --- the exchange with other brokers ---


@played_by(run, token=signed(rsa_key()).encode())
async def test_a_broker_shows_the_token_of_a_file_to_others(world: World) -> None:
    values = world.values({TOKEN_URL: "file:///token"})
    extensions, token = oauth_login(values, {"extension_pool": "a b"}, world.sources, world.clock.wall_ms)
    with pytest.raises(AuthenticationFailed):
        token()
    await world.sources.start()
    assert (token(), extensions) == (signed(rsa_key()), {"pool": "a b"})


@played_by(run)
async def test_brokers_with_unsecured_tokens_know_each_other(world: World) -> None:
    options = {"unsecuredLoginStringClaim_sub": "broker"}
    exchanges = world.exchanges({}, **options)
    _, token = oauth_login(world.values({}), options, world.sources, world.clock.wall_ms)
    server, client = exchanges(), OAuthBearerClient(token)
    assert client.answer(server.step(client.first())) is None
    assert server.identity == Identity(Principal("User", "broker"), (NOW_S + 3600) * 1000)


@pytest.mark.parametrize(
    ("given", "options", "reason"),
    [
        ({}, {}, f"{TOKEN_URL} must be a URL"),
        ({}, {"unsecuredValidatorRequiredScope": "a"}, "unsecuredLoginStringClaim_sub is needed"),
        ({TOKEN_URL: "file:///t"}, {"extension_x1": "a"}, "extension x1 cannot be sent"),
        ({}, {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginExtension_auth": "a"}, "auth cannot be sent"),
    ],
)
def test_settings_of_the_exchange_with_others_that_stop_the_start(
    given: dict[str, str], options: dict[str, str], reason: str
) -> None:
    async def case(world: World) -> None:
        with pytest.raises(ConfigError, match=reason):
            oauth_login(world.values(given), options, world.sources, world.clock.wall_ms)

    run(case)

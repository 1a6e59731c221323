"""From names and texts to settings; what cannot be used is named, and no secret is told."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from client.settings.parsing import parse_client, warnings_about
from client.settings.values import ClientSettings, LoginSettings, SettingsError, StoreSource, TlsSettings, TrustSettings

SECRET = "not-for-logs"
SERVERS = {"bootstrap.servers": "a:1"}
SSL = SERVERS | {"security.protocol": "SSL"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
SASL = SERVERS | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
LOGIN = SASL | {"sasl.jaas.config": JAAS}
BEARER = SASL | {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f'a.OAuthBearerLoginModule required clientId="x" clientSecret="{SECRET}" scope="s";',
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
}


def without(given: dict[str, str], name: str) -> dict[str, str]:
    return {each: text for each, text in given.items() if each != name}


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", (("a", 1),)),
        ("a", (("a", 9092),)),
        ("a:1, b:2 ,", (("a", 1), ("b", 2))),
        ("a:1,a:1", (("a", 1),)),
        ("[::1]:7,PLAINTEXT://b:2", (("::1", 7), ("b", 2))),
    ],
)
def test_servers(text: str, servers: tuple[tuple[str, int], ...]) -> None:
    assert parse_client({"bootstrap.servers": text}).servers == servers
    assert parse_client({"metadata.broker.list": text}).servers == servers
    assert parse_client(SERVERS, servers=text).servers == servers, "an option is stronger"


def test_servers_as_text() -> None:
    assert parse_client({"bootstrap.servers": "[::1]:7,b"}).bootstrap_servers == "[::1]:7,b:9092"


@pytest.mark.parametrize("text", ["a:b", "a:0", "a:70000", "a b:1", "a:1,,b:2", "::1:9092", "http://a/b"])
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        parse_client({"bootstrap.servers": text})


def test_defaults_and_what_is_given() -> None:
    usual = ClientSettings(servers=(("here", 1),), request_timeout_ms=7)
    assert parse_client({}, usual) == usual
    assert (parse_client(SERVERS).tls, parse_client(SERVERS).login) == (None, None)
    given = {"client.id": " me ", "request.timeout.ms": "5", "socket.timeout.ms": "6", "retry.backoff.ms": "0"}
    found = parse_client(SERVERS | given)
    assert (found.client_id, found.request_timeout_ms, found.retry_backoff_ms) == ("me", 5, 0)
    assert parse_client(SERVERS | {"socket.timeout.ms": "6"}).request_timeout_ms == 6


@pytest.mark.parametrize(
    ("given", "pauses_ms"),
    [
        ({}, (100, 1000, 50, 1000)),
        ({"retry.backoff.ms": "7", "retry.backoff.max.ms": "9"}, (7, 9, 50, 1000)),
        ({"reconnect.backoff.ms": "70", "reconnect.backoff.max.ms": "90"}, (100, 1000, 70, 90)),
        ({"reconnect.backoff.ms": "70"}, (100, 1000, 70, 70)),  # as Kafka: who gives one alone wants no other
    ],
)
def test_pauses(given: dict[str, str], pauses_ms: tuple[int, ...]) -> None:
    found = parse_client(SERVERS | given)
    retry = found.retry_backoff_ms, found.retry_backoff_max_ms
    assert (*retry, found.reconnect_backoff_ms, found.reconnect_backoff_max_ms) == pauses_ms


def test_names_of_kafka_and_of_librdkafka_mean_the_same() -> None:
    kafka = SSL | {
        "security.protocol": "ssl",
        "ssl.truststore.location": "/ca",
        "ssl.keystore.key": SECRET,
        "ssl.keystore.certificate.chain": "chain",
        "ssl.key.password": SECRET,
    }
    tls = parse_client(kafka).tls
    assert tls is not None and tls.trusted is not None and tls.keys is not None and tls.keys.key is not None
    assert (tls.trusted.store.location, tls.keys.store.text, tls.keys.key.text) == ("/ca", "chain", SECRET)
    assert (tls.checks_certificate, tls.checks_host, tls.versions) == (True, True, ("TLSv1.2", "TLSv1.3"))
    assert SECRET not in repr(tls)
    names = {"ssl.ca.location": "/ca", "ssl.key.pem": SECRET, "ssl.certificate.pem": "chain"}
    other = parse_client(SSL | names | {"ssl.key.password": SECRET}).tls
    assert other is not None and other.keys is not None
    assert other.trusted == TrustSettings(StoreSource("ssl.ca.location", "/ca"))
    assert (other.keys.store.text, other.keys.key_password) == ("chain", SECRET)
    files = parse_client(SSL | {"ssl.certificate.location": "/c", "ssl.key.location": "/k", "ssl.ca.location": "/ca"})
    assert files.tls is not None and files.tls.files == ("/ca", "/c", "/k")
    assert parse_client(SSL | {"ssl.ca.location": "probe"}).tls == TlsSettings()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ssl.endpoint.identification.algorithm": ""}, TlsSettings(checks_host=False)),
        ({"ssl.endpoint.identification.algorithm": "none"}, TlsSettings(checks_host=False)),
        ({"ssl.endpoint.identification.algorithm": "HTTPS"}, TlsSettings()),
        ({"enable.ssl.certificate.verification": "false"}, TlsSettings(checks_certificate=False, checks_host=False)),
        ({"ssl.enabled.protocols": "TLSv1.3"}, TlsSettings(versions=("TLSv1.3",))),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, TlsSettings(versions=("TLSv1.2",))),
        ({"ssl.protocol": "TLSv1.2"}, TlsSettings(versions=("TLSv1.2",))),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
         TlsSettings(versions=("TLSv1.2",), ciphers="ECDHE-RSA-AES256-GCM-SHA384")),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}, TlsSettings(ciphers="ECDHE-RSA-AES256-GCM-SHA384")),
    ],
)  # fmt: skip
def test_what_tls_checks(given: dict[str, str], expected: TlsSettings) -> None:
    assert parse_client(SSL | given).tls == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LOGIN, LoginSettings("PLAIN", "alice", SECRET)),
        (SASL | {"sasl.username": "alice", "sasl.password": SECRET}, LoginSettings("PLAIN", "alice", SECRET)),
        (without(SASL, "sasl.mechanism") | {"sasl.mechanisms": "scram-sha-256", "sasl.username": "a", "sasl.password": " b"},
         LoginSettings("SCRAM-SHA-256", "a", " b")),
        (SASL | {"sasl.jaas.config": f'{SCRAM} username="a" password="b\\"c";'}, LoginSettings("PLAIN", "a", 'b"c')),
        (SASL | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f"{SCRAM} username=a password=b tokenauth=true;"},
         LoginSettings("SCRAM-SHA-512", "a", "b", is_token=True)),
    ],
)  # fmt: skip
def test_logins(given: dict[str, str], expected: LoginSettings) -> None:
    found = parse_client(given)
    assert pickle.loads(pickle.dumps(found.login)) == expected
    assert (found.protocol, found.tls) == ("SASL_SSL", TlsSettings())
    assert parse_client(given | {"security.protocol": "sasl_plaintext"}).protocol == "SASL_PLAINTEXT"
    assert SECRET not in repr(found)


def bearer(given: dict[str, str]) -> Any:
    login = parse_client(given).login
    assert login is not None
    return login.bearer


def test_a_login_may_be_a_mechanism_alone_where_others_log_in() -> None:
    given = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    login = parse_client(given, needs_user=False).login
    assert login == LoginSettings("SCRAM-SHA-512")
    assert not login.has_user
    with pytest.raises(SettingsError, match=r"sasl\.username is missing"):
        parse_client(given)
    with pytest.raises(SettingsError, match=r"sasl\.password is missing"):
        parse_client({**given, "sasl.username": "alice"}, needs_user=False)
    with pytest.raises(SettingsError, match=r"sasl\.mechanism is missing"):
        parse_client({"bootstrap.servers": "a", "security.protocol": "SASL_SSL"}, needs_user=False)
    whole = parse_client({**given, "sasl.username": "alice", "sasl.password": "x"}, needs_user=False).login
    assert whole == LoginSettings("SCRAM-SHA-512", "alice", "x")


def test_where_bearer_tokens_come_from() -> None:
    found = bearer(BEARER)
    assert (found.url, found.client_id, found.client_secret, found.scope) == ("https://issuer/token", "x", SECRET, "s")
    assert SECRET not in repr(found)
    names = {"sasl.oauthbearer.client.id": "x", "sasl.oauthbearer.client.secret": SECRET, "sasl.oauthbearer.scope": "s"}
    librdkafka = without(BEARER, "sasl.jaas.config") | names
    assert bearer(librdkafka | {"sasl.oauthbearer.method": "oidc"}) == found
    assert bearer(librdkafka | {"https.ca.pem": "PEM"}).tls.trusted == TrustSettings(
        StoreSource("https.ca.pem", text="PEM")
    )
    assert bearer(librdkafka | {"sasl.oauthbearer.extensions": "a=1,b=2"}).extensions == (("a", "1"), ("b", "2"))
    assert bearer(without(BEARER, "sasl.jaas.config") | {"sasl.oauthbearer.token.endpoint.url": "file:///t"}).url
    stores = 'ssl.truststore.location="/ca" extension_a=1'
    module = BEARER["sasl.jaas.config"].replace('scope="s"', stores)
    own = bearer(BEARER | {"sasl.jaas.config": module, "sasl.login.read.timeout.ms": "9"})
    assert (own.tls.trusted.store.location, own.extensions, own.timeout_ms) == ("/ca", (("a", "1"),), 9)


def test_tokens_that_nobody_signs() -> None:
    unsecured = without(BEARER, "sasl.oauthbearer.token.endpoint.url")
    options = "unsecuredLoginStringClaim_sub=alice unsecuredLoginExtension_a=1"
    java = bearer(unsecured | {"sasl.jaas.config": f"a.OAuthBearerLoginModule required {options};"})
    assert (java.url, java.extensions) == (None, (("a", "1"),))
    config = "principalClaimName=azp principal=alice scope=x lifeSeconds=60 extension_a=1"
    found = bearer(without(unsecured, "sasl.jaas.config") | {"sasl.oauthbearer.config": config})
    assert dict(found.unsecured) == {
        "unsecuredLoginPrincipalClaimName": "azp",
        "unsecuredLoginStringClaim_azp": "alice",
        "unsecuredLoginListClaim_scope": ",x",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_a": "1",
    }
    assert found.name_claim == "azp"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "bootstrap.servers is missing"),
        (SERVERS | {"metadata.broker.list": "b:1"}, "bootstrap.servers and metadata.broker.list are one setting with two"),
        (SERVERS | {"request.timeout.ms": "soon"}, "request.timeout.ms=soon is not a whole number from 1 up"),
        (SERVERS | {"request.timeout.ms": "²"}, "whole number"),
        (SERVERS | {"security.protocol": "TLS"}, "security.protocol=TLS is not one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        (SERVERS | {"sasl.jaas.config": JAAS}, "sasl.jaas.config needs security.protocol=SASL_SSL or SASL_PLAINTEXT"),
        (SERVERS | {"ssl.ca.location": "/x"}, "ssl.ca.location needs security.protocol=SSL or SASL_SSL"),
        (SERVERS | {"bootstrap.controllers": "c:1"}, "bootstrap.controllers cannot be used: brokers are asked"),
        (SSL | {"ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class cannot be used: it names a part of Java"),
        (SSL | {"ssl.crl.location": "/x"}, "ssl.crl.location cannot be used"),
        (SSL | {"ssl.truststore.location": "/x", "ssl.truststore.certificates": "PEM"}, "cannot be given beside"),
        (SSL | {"ssl.keystore.location": "/x", "ssl.certificate.location": "/y"}, "ssl.keystore.location cannot be given"),
        (SSL | {"ssl.keystore.key": SECRET}, "ssl.keystore.key and ssl.keystore.certificate.chain need each other"),
        (SSL | {"ssl.certificate.location": "x"}, "ssl.certificate.location and ssl.key.location need each other"),
        (SSL | {"ssl.truststore.certificates": "x", "ssl.truststore.type": "JKS"}, "ssl.truststore.certificates is PEM"),
        (SSL | {"ssl.truststore.password": SECRET}, "ssl.truststore.password needs ssl.truststore.location"),
        (SSL | {"ssl.enabled.protocols": "TLSv1.1"}, "has none of TLSv1.2, TLSv1.3"),
        (SSL | {"ssl.cipher.suites": "TLS_NULL"}, "ssl.cipher.suites: TLS_NULL not supported"),
        (SSL | {"ssl.endpoint.identification.algorithm": "ldaps"}, "is not one of https, none"),
        (SSL | {"enable.ssl.certificate.verification": "no"}, "is not one of true, false"),
        (without(LOGIN, "sasl.mechanism"), "sasl.mechanism is missing: it is one of .*; PlainLoginModule is that of PLAIN"),
        (without(SASL, "sasl.mechanism") | {"sasl.username": "a", "sasl.password": SECRET}, "sasl.mechanism is missing"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: this client has no Kerberos, but PLAIN, SCRAM"),
        (LOGIN | {"sasl.mechanism": "PLAN"}, "sasl.mechanism=PLAN is not one of PLAIN, SCRAM-SHA-256"),
        (LOGIN | {"sasl.mechanism": "SCRAM-SHA-256"}, "has one ScramLoginModule, not PlainLoginModule"),
        (LOGIN | {"sasl.jaas.config": JAAS.replace("username", "user")}, "sasl.jaas.config has no username"),
        (LOGIN | {"sasl.jaas.config": JAAS.rstrip(";")}, "not terminated by semi-colon; valid is"),
        (LOGIN | {"sasl.jaas.config": JAAS * 2}, "has 2 login modules"),
        (LOGIN | {"sasl.password": "other"}, "sasl.password is not the password of sasl.jaas.config"),
        (SASL, "sasl.username is missing: .*PlainLoginModule required"),
        (SASL | {"sasl.username": "a"}, "sasl.password is missing"),
        (LOGIN | {"sasl.login.class": "a.B"}, "sasl.login.class cannot be used"),
        (BEARER | {"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "file:, http: or https:"),
        (BEARER | {"sasl.jaas.config": "a.OAuthBearerLoginModule required;"}, "has no clientId"),
        (BEARER | {"sasl.oauthbearer.grant.type": "urn:x"}, "sasl.oauthbearer.grant.type cannot be used"),
        (BEARER | {"sasl.oauthbearer.extensions": "auth=x"}, "extension auth cannot be sent"),
        (without(BEARER, "sasl.oauthbearer.token.endpoint.url"),
         "needs sasl.oauthbearer.token.endpoint.url, or a claim unsecuredLoginStringClaim_sub"),
        (without(BEARER, "sasl.oauthbearer.token.endpoint.url") | {"sasl.oauthbearer.config": "principle=x"}, "principle"),
    ],
)  # fmt: skip
def test_what_is_wrong(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as raised:
        parse_client(given)
    assert SECRET not in str(raised.value)


def test_a_prefix_is_part_of_every_name() -> None:
    given = {f"kafka.{name}": text for name, text in LOGIN.items()}
    assert parse_client(given | {"ssl.protocol": "none"}, prefix="kafka.") == parse_client(LOGIN)
    with pytest.raises(SettingsError, match=r"kafka\.sasl\.mechanism=X is not one of"):
        parse_client(given | {"kafka.sasl.mechanism": "X"}, prefix="kafka.")


def test_classes_that_do_what_is_done_here_are_accepted() -> None:
    package = "org.apache.kafka.common.security.oauthbearer"
    named = {"sasl.login.callback.handler.class": f"{package}.secured.OAuthBearerLoginCallbackHandler"}
    assert bearer(BEARER | named) == bearer(BEARER)


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ({"acks": "all", "group.id": "g", "key.deserializer": "a.B", "queue.buffering.max.ms": "5"}, ()),
        ({"config.providers": "env", "config.providers.env.class": "x", "barnabas.http": "a:1"}, ()),
        ({"ssl.trustore.location": "/x"}, ("unknown property ssl.trustore.location (is ssl.truststore.location meant?)",)),
        ({"ssl.ca.locaton": "/x"}, ("unknown property ssl.ca.locaton (is ssl.ca.location meant?)",)),
        ({"Acks": "1"}, ("unknown property Acks (is acks meant?)",)),
        ({"schema.registry.url": "x"}, ("unknown property schema.registry.url",)),
        ({"security.protocol": "plaintext", "ssl.ca.location": "/x", "sasl.mechanism": "PLAIN"},
         ("ssl.ca.location has no effect with security.protocol=PLAINTEXT",
          "sasl.mechanism has no effect with security.protocol=PLAINTEXT")),
        (LOGIN | {"ssl.ca.location": "/x"}, ()),
    ],
)  # fmt: skip
def test_warnings(given: dict[str, str], warnings: tuple[str, ...]) -> None:
    assert warnings_about(given, ("barnabas.http",)) == warnings

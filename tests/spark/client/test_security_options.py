"""How options say how the client is secured, and what is wrong with them; no error has a secret in it."""

from __future__ import annotations

import pickle

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.client_options import parse_client
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.client.security_settings import ClientLogin, ClientTls

SECRET = "not-for-logs"
SERVERS = {"kafka.bootstrap.servers": "a:1"}
PLAIN_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
SASL = SERVERS | {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": PLAIN_LOGIN,
}
BEARER = SASL | {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": f'a.OAuthBearerLoginModule required clientId="x" clientSecret="{SECRET}" scope="s";',
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
}


def test_nothing_is_secured_without_a_protocol() -> None:
    found = parse_client(SERVERS).connection
    assert (found.tls, found.login) == (None, None)


def test_stores_in_files_and_in_line() -> None:
    tls = parse_client(
        SERVERS | {
            "kafka.security.protocol": "ssl",
            "kafka.ssl.truststore.location": "/ca.pem",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.keystore.type": "pem",
            "kafka.ssl.keystore.key": SECRET,
            "kafka.ssl.keystore.certificate.chain": "chain",
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.ssl.enabled.protocols": "TLSv1.3",
        }
    ).connection.tls  # fmt: skip
    assert tls is not None and tls.trusted is not None and tls.keys is not None
    assert (tls.trusted.location, tls.trusted.kind) == ("/ca.pem", "PEM")
    assert (tls.keys.key, tls.keys.certificates, tls.keys.location) == (SECRET, "chain", None)
    assert (tls.checks_host_name, tls.versions) == (False, ("TLSv1.3",))
    assert SECRET not in repr(tls)


def test_a_login_travels_to_executors_and_hides_its_secrets() -> None:
    connection = pickle.loads(pickle.dumps(parse_client(SASL).connection))
    assert connection.tls == ClientTls()
    assert connection.login == ClientLogin("PLAIN", (("username", "alice"), ("password", SECRET)))
    assert SECRET not in repr(connection)
    assert parse_client(SASL | {"kafka.security.protocol": "sasl_plaintext"}).connection.tls is None


def test_where_bearer_tokens_come_from() -> None:
    login = parse_client(BEARER).connection.login
    assert login is not None
    assert (login.token_url, login.name_claim) == ("https://issuer/token", "sub")
    assert parse_client(BEARER | {"kafka.sasl.oauthbearer.token.endpoint.url": "file:///token"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (SERVERS | {"kafka.sasl.jaas.config": PLAIN_LOGIN}, "needs kafka.security.protocol SASL_SSL or SASL_PLAINTEXT"),
        (SERVERS | {"kafka.ssl.keystore.key": SECRET}, "needs kafka.security.protocol SSL or SASL_SSL"),
        (
            SASL | {"kafka.sasl.mechanism": "GSSAPI"},
            "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, not 'GSSAPI'",
        ),
        (
            {**SERVERS, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "plain"},
            "PlainLoginModule required",
        ),
        (SASL | {"kafka.sasl.mechanism": "SCRAM-SHA-256"}, "has one ScramLoginModule, not PlainLoginModule"),
        (SASL | {"kafka.sasl.jaas.config": PLAIN_LOGIN.replace("username", "user")}, "has no username"),
        (SASL | {"kafka.sasl.jaas.config": PLAIN_LOGIN.rstrip(";")}, "not terminated by semi-colon; valid is"),
        (
            SASL | {"kafka.ssl.truststore.location": "/x.jks"},
            "'kafka.ssl.truststore.type' must be PEM or PKCS12.*keytool",
        ),
        (
            SASL | {"kafka.ssl.keystore.key": SECRET, "kafka.ssl.keystore.type": "PEM"},
            "'kafka.ssl.keystore.key' and 'kafka.ssl.keystore.certificate.chain' need each other",
        ),
        (
            SASL | {"kafka.ssl.truststore.certificates": "x", "kafka.ssl.truststore.type": "PKCS12"},
            "'kafka.ssl.truststore.location' is needed",
        ),
        (SASL | {"kafka.ssl.enabled.protocols": "TLSv1.1"}, "none of TLSv1.2, TLSv1.3"),
        (BEARER | {"kafka.sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "file:, http: or https:"),
        (BEARER | {"kafka.sasl.jaas.config": "a.OAuthBearerLoginModule required;"}, "has no clientId"),
        (
            {name: text for name, text in BEARER.items() if not name.endswith("url")},
            "needs kafka.sasl.oauthbearer.token.endpoint.url, or a claim unsecuredLoginStringClaim_sub",
        ),
    ],
)
def test_what_is_wrong(options: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem) as raised:
        parse_client(options)
    assert SECRET not in str(raised.value)

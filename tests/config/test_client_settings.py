"""Properties of clients in the forms of the libraries."""

from pathlib import Path

import pytest

from config.client_settings import ClusterAccess, SettingsError

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="s\\"3;cret";'


def test_the_option_is_stronger_than_the_file() -> None:
    properties = {"bootstrap.servers": "a:1", "client.id": "me"}
    assert ClusterAccess.of(properties).bootstrap_servers == "a:1"
    assert ClusterAccess.of(properties, "b:2").for_records()["bootstrap.servers"] == "b:2"


def test_a_cluster_must_be_named() -> None:
    for servers in ("a", "a:1,b:2,", "a:1, b:2", "[::1]:9092", "PLAINTEXT://a:1"):
        assert ClusterAccess.of({}, servers).bootstrap_servers == servers
    for servers in ("a:b", "a:0", "a:70000", "a b:1", "a:1,,b:2", "::1:9092", "http://a/b"):
        with pytest.raises(SettingsError, match="HOST:PORT"):
            ClusterAccess.of({}, servers)
    with pytest.raises(SettingsError, match="--bootstrap-server"):
        ClusterAccess.of({})


def test_a_jaas_line_names_the_user(tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text("PEM")
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": JAAS,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.endpoint.identification.algorithm": "",
    }
    settings = ClusterAccess.of(properties).for_records()
    assert settings["sasl.username"] == "alice"
    assert settings["sasl.password"] == 's"3;cret'
    assert settings["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings["ssl.ca.pem"] == "PEM"
    assert settings["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism=GSSAPI"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"ssl.truststore.location": "/nowhere/trust.jks"}, "keytool -importkeystore"),
        ({"ssl.truststore.location": "/nowhere/trust.pem"}, "No such file"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms=soon"),
    ],
)
def test_what_cannot_be_used_names_the_setting(properties: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ClusterAccess.of({"bootstrap.servers": "a:1"} | properties)


def test_a_secret_is_in_no_message() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x password="hidden"',
    }
    with pytest.raises(SettingsError) as caught:
        ClusterAccess.of({"bootstrap.servers": "a:1"} | properties)
    assert "hidden" not in str(caught.value)

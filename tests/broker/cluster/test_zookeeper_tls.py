"""TLS towards ZooKeeper: what the settings name, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.cluster.zookeeper_tls import zookeeper_tls
from config.broker import BrokerSettings
from config.errors import ConfigError
from runtime.disk.os_filesystem import OsFileSystem
from security.tls.key_store import read_pem_certificates
from tests.jks_writer import Entry, jks
from tests.tls_certificates import authority, issued


def context(**given: str) -> ssl.SSLContext | None:
    """With `ssl_keystore_type="PEM"` for zookeeper.ssl.keystore.type=PEM."""
    texts = {f"zookeeper.ssl.{name.replace('_', '.')}": text for name, text in given.items()}
    settings = BrokerSettings.from_sources({"zookeeper.connect": "a:1", **texts}, {}, {})
    return zookeeper_tls(settings, OsFileSystem())


def test_stores_of_any_form(tmp_path: Path) -> None:
    trusted = read_pem_certificates(authority().certificate)
    (tmp_path / "trust").write_bytes(jks([Entry("ca", trusted)], "word"))
    (tmp_path / "own.pem").write_text(issued("broker", "localhost").both)
    given = {"truststore_location": str(tmp_path / "trust"), "keystore_location": str(tmp_path / "own.pem")}
    for more in ({}, {"truststore_password": "word"}, {"truststore_type": "PKCS12", "keystore_type": "pem"}):
        made = context(client_enable="true", **given, **more)
        assert made is not None
        assert made.get_ca_certs(binary_form=True) == list(trusted)
        assert made.check_hostname
    assert context(**given) is None
    with pytest.raises(ConfigError, match=r"truststore.location=.*wrong.* \(see zookeeper.ssl.truststore.password\)"):
        context(client_enable="true", **given, truststore_password="other")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"truststore_location": "/no/such.pem"}, "zookeeper.ssl.truststore.location=/no/such.pem: No such file"),
        ({"keystore_location": "/no/such.jks"}, "zookeeper.ssl.keystore.location=/no/such.jks: No such file"),
        ({"keystore_location": "/x", "keystore_type": "BCFKS"}, "zookeeper.ssl.keystore.type=BCFKS must be JKS"),
        ({"enabled_protocols": "TLSv1.1"}, "TLSv1.1"),
        ({"cipher_suites": "X"}, "cipher.suites"),
        ({"crl_enable": "true"}, "crl.enable"),
        ({"ocsp_enable": "true"}, "ocsp.enable"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        context(client_enable="true", **given)
    assert context(**given) is None

"""Properties files, stores of every form, and the contexts made of them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from client.settings.command_line import client_properties
from client.settings.files import context_of, read_properties_file, read_tls
from client.settings.parsing import parse_client
from client.settings.values import SettingsError, TlsSettings
from runtime.tls.context import check_handshake, server_context
from tests.tls_certificates import REQUIRED, authority, issued, material

STORES = Path(__file__).parents[2] / "security" / "stores" / "made_by_keytool"
STORE_PASSWORD, KEY_PASSWORD = "store-secret", "key-secret"


def tls(**given: object) -> TlsSettings:
    """Settings by names with underscores for dots."""
    names = {name.replace("_", "."): str(text) for name, text in given.items()}
    found = parse_client({"bootstrap.servers": "a:1", "security.protocol": "SSL"} | names).tls
    assert found is not None
    return found


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes(b"# x\nsasl.jaas.config=a\\ b \\\n  c\\=\\u00fc\nclient.id : \xfc\n")
    assert read_properties_file(str(path)) == {"sasl.jaas.config": "a b c=ü", "client.id": "ü"}
    monkeypatch.setenv("SECRET_OF_TEST", "hidden")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    path.write_text(
        f"config.providers=env\nconfig.providers.env.class={provider}\nsasl.password=${{env:SECRET_OF_TEST}}\n"
    )
    assert read_properties_file(str(path))["sasl.password"] == "hidden"
    path.write_text("a=\\u12\n")
    for bad, problem in ((str(path), "cannot read"), (str(tmp_path / "gone"), "No such file")):
        with pytest.raises(SettingsError, match=problem):
            read_properties_file(bad)


def test_a_file_is_stronger_than_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "test.properties").write_text("client.id=profile\n")
    (tmp_path / "file").write_text("client.id=file\n")
    assert client_properties(None, "test") == {"client.id": "profile"}
    assert client_properties(str(tmp_path / "file"), "test") == {"client.id": "file"}
    assert client_properties(None, None) == {}


def test_stores_of_every_form_give_the_same(tmp_path: Path) -> None:
    one, ca = issued("client"), authority().certificate
    for name, text in (("both", one.both), ("key", one.key), ("cert", one.certificate), ("ca", ca)):
        (tmp_path / name).write_text(text)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.pem").write_text(ca)
    (folder / "b.pem").write_text(ca)
    (folder / "README").write_text("no certificate")
    paths = {name: str(tmp_path / name) for name in ("both", "key", "cert", "ca", "folder")}
    expected = read_tls(tls(ssl_truststore_certificates=ca, ssl_keystore_key=one.both,
                            ssl_keystore_certificate_chain=one.both))  # fmt: skip
    assert expected == material("client")
    for given in (
        tls(ssl_truststore_location=paths["ca"], ssl_truststore_type="PEM", ssl_keystore_location=paths["both"]),
        tls(ssl_ca_location=paths["folder"], ssl_certificate_location=paths["cert"], ssl_key_location=paths["key"]),
        tls(ssl_ca_pem=ca, ssl_certificate_pem=one.certificate, ssl_key_pem=one.key),
    ):
        assert read_tls(given) == expected
    check_handshake(server_context(material("broker", "localhost"), REQUIRED),
                    context_of(tls(ssl_truststore_certificates=ca, ssl_keystore_location=paths["both"],
                                   ssl_endpoint_identification_algorithm="")))  # fmt: skip


def test_java_stores() -> None:
    found = read_tls(tls(ssl_keystore_location=STORES / "key.jks", ssl_keystore_password=STORE_PASSWORD,
                         ssl_key_password=KEY_PASSWORD, ssl_truststore_location=STORES / "trust.jks",
                         ssl_truststore_password=STORE_PASSWORD))  # fmt: skip
    assert found.keys is not None and b"PRIVATE KEY" in found.keys and found.trusted


def test_what_a_context_checks() -> None:
    context = context_of(tls())
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context_of(tls(ssl_endpoint_identification_algorithm="")).check_hostname is False
    trusting = context_of(tls(enable_ssl_certificate_verification="false"))
    assert (trusting.check_hostname, trusting.verify_mode) == (False, ssl.CERT_NONE)


def test_what_cannot_be_read_names_the_setting_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no certificate")
    (tmp_path / "der").write_bytes(b"\x30\x00")
    for given, problem in (
        (tls(ssl_ca_location="/gone.pem"), "ssl.ca.location=/gone.pem: No such file"),
        (tls(ssl_truststore_location="/gone.jks"), "ssl.truststore.location=/gone.jks: No such file"),
        (tls(ssl_ca_location=tmp_path / "text"), "ssl.ca.location=.*"),
        (tls(ssl_ca_location=tmp_path / "empty"), "ssl.ca.location=.*no file of this folder has a certificate"),
        (tls(ssl_ca_pem="x"), "ssl.ca.pem: no certificate in it"),
        (tls(ssl_keystore_location=tmp_path / "der", ssl_keystore_password="hidden"), "ssl.keystore.location=.*"),
    ):
        with pytest.raises(SettingsError, match=problem) as raised:
            read_tls(given)
        assert "hidden" not in str(raised.value)
    with pytest.raises(SettingsError, match=r"ssl\.cipher\.suites"):
        context_of(tls(ssl_cipher_suites="NONSENSE"))
    other_key = issued("broker", "localhost").key
    with pytest.raises(SettingsError, match=r"ssl\.certificate\.pem"):
        context_of(tls(ssl_certificate_pem=issued("client").certificate, ssl_key_pem=other_key))

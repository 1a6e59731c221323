"""Keys and certificates of PEM and PKCS12 stores, also of those that Java's keytool makes; what may replace what."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from security.key_store import (
    certificate_names,
    check_replacement,
    read_pem_certificates,
    read_pem_keys,
    read_pkcs12_certificates,
    read_pkcs12_keys,
)
from tests.tls_certificates import authority, issued

SECRET = "s3cret-words"


def encrypted(key: str) -> str:
    read = load_pem_private_key(key.encode(), None)
    return read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET.encode())).decode()


def test_pem_is_read_with_text_around_and_spaces_for_line_breaks() -> None:
    both = issued("broker", "localhost").both + authority().certificate
    expected = read_pem_keys(both, both, None)
    assert len(expected.chain) == 2
    assert certificate_names(expected.chain[0]).owner_text == "CN=broker"
    for text in (
        both.replace("\n", " "),
        both.replace("\n", "\r\n"),
        f"Bag Attributes\n  name: x\n{both}\nend",
        both.rstrip(),
    ):
        assert read_pem_keys(text, text, None) == expected
    assert read_pem_certificates(both) == expected.chain


def test_an_encrypted_key_needs_its_password() -> None:
    one = issued("broker", "localhost")
    key = encrypted(one.key)
    assert read_pem_keys(key, one.certificate, SECRET).key == read_pem_keys(one.key, one.certificate, None).key
    with pytest.raises(ValueError, match=r"encrypted, and ssl.key.password is not set"):
        read_pem_keys(key, one.certificate, None)
    with pytest.raises(ValueError, match=r"ssl.key.password is not the private key's"):
        read_pem_keys(key, one.certificate, "wrong")


def test_openssls_older_form_of_keys_is_read_too() -> None:
    key = rsa.generate_private_key(65537, 2048)
    certificate = authority().certificate
    for encryption, password in ((NoEncryption(), None), (BestAvailableEncryption(SECRET.encode()), SECRET)):
        text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, encryption).decode()
        assert b"PRIVATE KEY" in read_pem_keys(text, certificate, password).key


@pytest.mark.parametrize(
    ("key", "chain", "message"),
    [
        ("", "x", "no private key"),
        (issued("broker").key * 2, "", "one private key expected, but found 2"),
        (issued("broker").key, issued("broker").key, "no certificate"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n", "", "no base64"),
    ],
)
def test_what_is_missing_is_named(key: str, chain: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_pem_keys(key, chain, None)


def store(*, key: bool, password: str = SECRET) -> bytes:
    one = issued("broker", "localhost")
    return pkcs12.serialize_key_and_certificates(
        b"broker",
        load_pem_private_key(one.key.encode(), None) if key else None,  # type: ignore[arg-type]
        load_pem_x509_certificate(one.certificate.encode()) if key else None,
        [load_pem_x509_certificate(authority().certificate.encode())],
        BestAvailableEncryption(password.encode()),
    )


def test_pkcs12_has_the_key_with_its_chain() -> None:
    keys = read_pkcs12_keys(store(key=True), SECRET, SECRET)
    assert [certificate_names(each).owner_text for each in keys.chain] == ["CN=broker", "CN=test authority"]
    assert read_pkcs12_certificates(store(key=False), SECRET) == read_pem_certificates(authority().certificate)
    assert len(read_pkcs12_certificates(store(key=True), SECRET)) == 2


@pytest.mark.parametrize(
    ("data", "password", "key_password", "message"),
    [
        (store(key=True), "wrong", None, "the password is wrong, or it is not PKCS12"),
        (b"nonsense", SECRET, None, "the password is wrong, or it is not PKCS12"),
        (store(key=False), SECRET, None, "no private key"),
        (store(key=True), SECRET, "another", "keys of PKCS12 have the password of the store"),
    ],
)
def test_why_pkcs12_is_refused(data: bytes, password: str, key_password: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        read_pkcs12_keys(data, password, key_password)
    assert SECRET not in str(refused.value)


def test_a_trust_store_without_its_password() -> None:
    with pytest.raises(ValueError, match="it has a password, which is not set, or it is not PKCS12"):
        read_pkcs12_certificates(store(key=False), None)


def test_stores_of_javas_keytool(tmp_path: Path) -> None:
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed")

    def keytool(*arguments: str) -> None:
        common = ["-storetype", "PKCS12", "-storepass", SECRET]
        subprocess.run(["keytool", *arguments, *common], cwd=tmp_path, check=True, capture_output=True)

    names = ["-dname", "CN=localhost,OU=x", "-ext", "SAN=dns:localhost"]
    keytool("-genkeypair", "-alias", "own", "-keyalg", "EC", *names, "-keystore", "keys.p12")
    keytool("-exportcert", "-alias", "own", "-rfc", "-file", "own.pem", "-keystore", "keys.p12")
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", "own.pem", "-keystore", "trust.p12")
    trusted = read_pem_certificates((tmp_path / "own.pem").read_text())
    assert read_pkcs12_keys((tmp_path / "keys.p12").read_bytes(), SECRET, None).chain == trusted
    assert read_pkcs12_certificates((tmp_path / "trust.p12").read_bytes(), SECRET) == trusted


def test_no_secret_is_in_a_repr() -> None:
    one = issued("broker", "localhost")
    assert "PRIVATE" not in repr(read_pem_keys(one.key, one.certificate, None))
    assert "PRIVATE" not in repr(one)


def test_a_replacement_keeps_its_names_unless_that_is_allowed() -> None:
    def keys(name: str, *hosts: str):  # type: ignore[no-untyped-def]
        both = authority().issue(name, hosts=hosts).both
        return read_pem_keys(both, both, None)

    old = keys("broker", "a", "b")
    check_replacement(old, keys("broker", "b", "a", "c"), allows_names=False, allows_alternatives=False)
    check_replacement(old, keys("Broker", "b", "a"), allows_names=False, allows_alternatives=False)
    with pytest.raises(ValueError, match=r"DistinguishedName does not match: existing=CN=broker, new=CN=other"):
        check_replacement(old, keys("other", "a", "b"), allows_names=False, allows_alternatives=True)
    with pytest.raises(ValueError, match=r"SubjectAltNames do not match: the new certificate lacks DNSName:b"):
        check_replacement(old, keys("broker", "a"), allows_names=True, allows_alternatives=False)
    check_replacement(old, keys("other"), allows_names=True, allows_alternatives=True)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for framed in (text, f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"):
        try:
            read_pem_certificates(framed)
        except ValueError:
            continue


@given(st.binary(max_size=300))
def test_any_bytes_are_no_pkcs12(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"PKCS12"):
        read_pkcs12_keys(data, SECRET, None)

"""Keys and certificates of PEM, PKCS12 and JKS stores; what may replace what."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
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

from security.stores.java_order import order_of_jks
from security.tls.key_store import (
    certificate_names,
    check_replacement,
    read_key_store,
    read_pem_certificates,
    read_pem_keys,
    read_trust_store,
)
from tests.jks_writer import Entry, jks
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
    with pytest.raises(ValueError, match=r"encrypted, and its password is not set"):
        read_pem_keys(key, one.certificate, None)
    with pytest.raises(ValueError, match=r"the password of the private key is wrong"):
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
    keys = read_key_store(store(key=True), SECRET, SECRET)
    assert [certificate_names(each).owner_text for each in keys.chain] == ["CN=broker", "CN=test authority"]


def test_a_trust_store_has_what_java_trusts() -> None:
    """Not the certificates that only lead from a key to its authority, nor those that OpenSSL exports without keys."""
    assert [certificate_names(each).owner_text for each in read_trust_store(store(key=True), SECRET)] == ["CN=broker"]
    with pytest.raises(ValueError, match=r"1 in it lack the attribute trustedKeyUsage, .*keytool -importcert"):
        read_trust_store(store(key=False), SECRET)
    with pytest.raises(ValueError, match="no private key with a certificate"):
        read_key_store(store(key=False), SECRET, None)


def test_keys_of_several_kinds_are_all_there() -> None:
    """In the order in which clients prefer them; of one kind it is the one that Java's key manager chooses."""
    trusted = read_pem_certificates(authority().certificate)
    kinds = {
        "rsa": rsa.generate_private_key(65537, 2048), "ed": ed25519.Ed25519PrivateKey.generate(),
        "ec": ec.generate_private_key(ec.SECP256R1()), "other": ec.generate_private_key(ec.SECP256R1()),
    }  # fmt: skip
    ders = {name: key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()) for name, key in kinds.items()}
    found = read_key_store(jks([Entry(name, trusted, der, SECRET) for name, der in ders.items()], SECRET), SECRET, None)
    first_of_ec = next(name for name in order_of_jks(list(kinds)) if name in ("ec", "other"))
    assert [base64.b64decode("".join(each.key.decode().splitlines()[1:-1])) for each in (found, *found.others)] == [
        ders[name] for name in (first_of_ec, "ed", "rsa")
    ]


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

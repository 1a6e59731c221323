"""Java's own key stores as keytool writes them, with and without passwords; a wrong password is not the same as damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from security.key_store import certificate_names, read_key_store, read_pem_certificates, read_trust_store
from tests.tls_certificates import issued

STORE, KEY = "store-secret", "key-secret"
FOLDER = Path(__file__).parent / "made_by_keytool"


def made(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def test_a_key_has_a_password_of_its_own() -> None:
    keys = read_key_store(made("key.jks"), STORE, KEY)
    assert keys == read_key_store(made("key.jks"), None, KEY)
    assert [certificate_names(each).owner_text for each in keys.chain] == ["CN=one"]
    for passwords, message in (
        (("wrong", KEY), "the password of the Java key store is wrong"),
        ((STORE, "wrong"), "the password of the private key is wrong"),
        ((STORE, None), "the password of the private key is wrong"),
        ((None, None), "the password of the private key is not set"),
    ):
        with pytest.raises(ValueError, match=message):
            read_key_store(made("key.jks"), *passwords)


def test_trusted_certificates_are_read_without_a_password() -> None:
    expected = read_key_store(made("key.jks"), STORE, KEY).chain
    for password in (STORE, None):
        assert read_trust_store(made("trust.jks"), password) == expected
    assert read_trust_store(made("key.jks"), None) == expected
    with pytest.raises(ValueError, match="no private key"):
        read_key_store(made("trust.jks"), STORE, None)


def test_a_damaged_store_is_not_one_with_a_wrong_password() -> None:
    whole = made("key.jks")
    for end in range(4, len(whole)):
        with pytest.raises(ValueError, match="damaged"):
            read_key_store(whole[:end], STORE, KEY)
    with pytest.raises(ValueError, match="JCEKS"):
        read_trust_store(b"\xce\xce\xce\xce" + whole[4:], None)
    with pytest.raises(ValueError, match="unknown version 3"):
        read_trust_store(whole[:7] + b"\3" + whole[8:], None)


def test_pem_is_recognised_too() -> None:
    both = issued("broker").both.encode()
    assert (
        read_trust_store(both, None) == read_key_store(both, None, None).chain == read_pem_certificates(both.decode())
    )

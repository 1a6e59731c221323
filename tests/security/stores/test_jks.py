"""Java's own key stores of both versions, their passwords, and what damage of them is called."""

from __future__ import annotations

import hashlib
import struct

import pytest

from security.stores.entries import PasswordError
from security.stores.jks import ENTRIES_MAX, read_jks
from tests.jks_writer import Entry, jks

STORE, KEY = "store-secret", "key-secret"
CERTIFICATE, OTHER = b"\x30\x03\x02\x01\x01", b"\x30\x03\x02\x01\x02"
PRIVATE = b"\x30\x82\x01\x00" + bytes(range(256))
ENTRIES = [Entry("One", [CERTIFICATE, OTHER], PRIVATE, KEY), Entry("ca", [OTHER])]


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_have_keys_chains_and_trusted_certificates(version: int) -> None:
    for password in (STORE, None):
        read = read_jks(jks(ENTRIES, STORE, version=version), password)
        (key,) = read.keys
        assert (key.alias, key.chain, read.trusted) == ("one", (CERTIFICATE, OTHER), (OTHER,))
        assert key.decrypted(KEY) == PRIVATE


def test_a_wrong_password_is_told_from_damage_and_from_that_of_the_key() -> None:
    store = jks(ENTRIES, STORE)
    with pytest.raises(PasswordError, match="the password of the store is wrong, or its bytes were changed") as wrong:
        read_jks(store, "other")
    assert not wrong.value.of_key
    (key,) = read_jks(store, STORE).keys
    for password, text in (
        (STORE, "the password of the private key is wrong"),
        (None, "has a password, which is not set"),
    ):
        with pytest.raises(PasswordError, match=text) as refused:
            key.decrypted(password)
        assert refused.value.of_key
        assert STORE not in str(refused.value)
    assert "PRIVATE" not in repr(read_jks(store, STORE)).upper().replace("PRIVATEKEY", "")


def test_a_changed_byte_is_found_with_the_password_only() -> None:
    store = bytearray(jks(ENTRIES, STORE))
    store[25] ^= 1  # in the time of the first entry
    assert read_jks(bytes(store), None).keys
    with pytest.raises(PasswordError, match="or its bytes were changed"):
        read_jks(bytes(store), STORE)


def test_a_file_that_ends_too_early_is_damaged_wherever_it_ends() -> None:
    store = jks(ENTRIES, STORE)
    for end in range(4, len(store)):
        with pytest.raises(ValueError, match="damaged") as refused:
            read_jks(store[:end], STORE)
        assert not isinstance(refused.value, PasswordError)


@pytest.mark.parametrize(
    ("position", "number", "text"),
    [
        (4, 3, "unknown version 3"),
        (8, 0xFFFFFFFF, "4294967295 entries by its own account"),
        (8, ENTRIES_MAX, "ends too early"),
        (12, 7, "an entry has the unknown kind 7"),
        (29, 0xFFFFFFFF, "a length in it is wrong"),
    ],
)
def test_a_wrong_number_is_told_at_once(position: int, number: int, text: str) -> None:
    store = bytearray(jks(ENTRIES, STORE))
    store[position : position + 4] = struct.pack(">I", number)
    with pytest.raises(ValueError, match=text):
        read_jks(bytes(store), None)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"X.509", b"X.400", "a certificate that is not X.509"),
        (CERTIFICATE, b"\x30\x04\x02\x01\x01", "a certificate is not in the expected form"),
        (b"ca", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_content_that_cannot_be_one(old: bytes, new: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_jks(jks(ENTRIES, STORE).replace(old, new), None)


def test_a_key_of_another_protection_is_refused() -> None:
    store = jks(ENTRIES, STORE).replace(bytes.fromhex("2b060104012a02110101"), bytes.fromhex("2b060104012a02110102"))
    (key,) = read_jks(store, None).keys
    with pytest.raises(ValueError, match=r"unknown algorithm \(1.3.6.1.4.1.42.2.17.1.2\)"):
        key.decrypted(KEY)
    short = jks([Entry("x", [CERTIFICATE], b"", KEY)], STORE)
    with pytest.raises(ValueError, match="a private key is too short"):
        read_jks(short, None).keys[0].decrypted(KEY)


def test_the_last_entry_of_an_alias_counts() -> None:
    twice = [Entry("Ca", [CERTIFICATE]), Entry("cA", [OTHER])]
    assert read_jks(jks(twice, STORE), STORE).trusted == (OTHER,)


def test_a_digest_of_sha1_covers_the_password_and_all_before_it() -> None:
    store = jks([], "")
    assert store[-20:] == hashlib.sha1(b"Mighty Aphrodite" + store[:-20]).digest()
    assert read_jks(store, "").keys == ()

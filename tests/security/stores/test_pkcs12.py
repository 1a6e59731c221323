"""PKCS12 stores: their encryption, encodings and limits; and what is wrong with one that cannot be read."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from security.stores import ber, password_encryption
from security.stores.entries import PasswordError
from security.stores.pkcs12 import read_pkcs12
from security.stores.rc2 import decrypted_cbc
from tests.tls_certificates import authority, issued

SECRET = "s3cret-words"


def certificate(pem: str) -> x509.Certificate:
    return load_pem_x509_certificate(pem.encode())


def store(algorithm: pkcs12.PBES | None = None, mac: hashes.HashAlgorithm | None = None, *, rounds: int = 10) -> bytes:
    one = issued("broker", "localhost")
    encryption = NoEncryption() if algorithm is None else (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(rounds)
        .key_cert_algorithm(algorithm)
        .hmac_hash(mac or hashes.SHA256())
        .build(SECRET.encode())
    )  # fmt: skip
    key = load_pem_private_key(one.key.encode(), None)
    others = [certificate(authority().certificate)]
    return pkcs12.serialize_key_and_certificates(b"own", key, certificate(one.certificate), others, encryption)  # type: ignore[arg-type]


PBES = pkcs12.PBES
CURRENT, TRIPLE_DES = PBES.PBESv2SHA256AndAES256CBC, PBES.PBESv1SHA1And3KeyTripleDESCBC


@pytest.mark.parametrize(("algorithm", "mac"), [(CURRENT, hashes.SHA256()), (TRIPLE_DES, hashes.SHA1())])
def test_passwords_of_old_and_new_encryption(algorithm: pkcs12.PBES, mac: hashes.HashAlgorithm) -> None:
    data = store(algorithm, mac)
    read = read_pkcs12(data, SECRET)
    assert [len(key.chain) for key in read.keys] == [2]
    pem = load_pem_private_key(issued("broker", "localhost").key.encode(), None)
    expected = pem.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    assert read.keys[0].decrypted(SECRET) == expected
    with pytest.raises(PasswordError, match="the password of the private key is wrong") as of_key:
        read.keys[0].decrypted("other")
    assert of_key.value.of_key
    for password, text in (("other", "the password of the store is wrong, or"), (None, "a password, which is not set")):
        with pytest.raises(PasswordError, match=text) as refused:
            read_pkcs12(data, password)
        assert not refused.value.of_key


def test_a_store_that_ends_too_early_is_no_wrong_password() -> None:
    data = store(CURRENT)
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ValueError, match="the PKCS12 store cannot be read: ") as refused:
            read_pkcs12(data[:end], SECRET)
        assert not isinstance(refused.value, PasswordError)


def changed(old: bytes, new: bytes) -> bytes:
    data = store(CURRENT)
    assert old in data
    return data.replace(old, new)


DATA, AES = ber.object_name("1.2.840.113549.1.7.1"), ber.object_name("2.16.840.1.101.3.4.1.42")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (changed(b"\x02\x01\x03", b"\x02\x01\x04"), "its version 4 is unknown"),
        (changed(DATA, DATA[:-1] + b"\2"), "signed with a key"),
        (changed(DATA, DATA[:-1] + b"\7"), r"content of an unknown type \(1.2.840.113549.1.7.7\)"),
        (b"\x30\x03\x02\x01\x03", "other parts"),
        (b"\x30\x80" * 4000, "nested too deep"),
        (b"\x30\x84\xff\xff\xff\xff", "longer than what contains it"),
        (b"\x30\x85\1\0\0\0\0", "a wrong length"),
        (b"\x30\x03\x1f\x01\x00", "unknown tag"),
        (b"", "ends in the middle"),
    ],
)
def test_what_cannot_be_read_is_told(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=f"the PKCS12 store cannot be read: .*{text}"):
        read_pkcs12(data, SECRET)


def test_an_unknown_algorithm_is_named() -> None:
    algorithm = b"\x30\x0e\x06\x0a" + ber.object_name("1.2.840.113549.1.12.1.9")[:10] + b"\x30\x00"
    with pytest.raises(ValueError, match=r"an unknown algorithm \(1.2.840.113549.1.12.1.9\)"):
        password_encryption.decrypted(ber.parse(algorithm), bytes(8), SECRET, password_encryption.Effort())


def test_encodings_of_unknown_length_are_read() -> None:
    """BER, as older programs write it: the outer elements end with two zero bytes, and octets come in parts."""
    plain = ber.parse(store())
    version, content, _ = plain.parts(3, 3)
    kind, wrapped = content.parts(2, 2)
    octets = wrapped.parts(1, 1)[0].octets()
    half = len(octets) // 2
    parts = b"".join(b"\x04\x82" + len(part).to_bytes(2) + part for part in (octets[:half], octets[half:]))
    name = kind.data[kind.begin : kind.next]
    outer = b"\x30\x80" + name + b"\xa0\x80\x24\x80" + parts + b"\0\0" * 3
    data = b"\x30\x80" + version.data[version.begin : version.next] + outer + b"\0\0"
    assert [key.chain for key in read_pkcs12(data, None).keys] == [key.chain for key in read_pkcs12(store(), None).keys]


def test_derivations_of_keys_are_bounded() -> None:
    effort = password_encryption.Effort()
    for iterations in (0, -1, password_encryption.ITERATIONS_MAX + 1):
        with pytest.raises(ValueError, match=f"asks for {iterations} iterations"):
            effort.spend(iterations)
    for _ in range(2):
        effort.spend(password_encryption.ITERATIONS_MAX)
    with pytest.raises(ValueError, match="more than are done for a store"):
        effort.spend(1)


def test_too_many_entries_are_refused() -> None:
    def wrapped(tag: bytes, content: bytes) -> bytes:
        return tag + b"\x84" + len(content).to_bytes(4) + content

    def data(content: bytes) -> bytes:
        return wrapped(b"\x30", b"\x06\x09" + DATA + wrapped(b"\xa0", wrapped(b"\x04", content)))

    bag = wrapped(b"\x30", b"\x06\x0b" + ber.object_name("1.2.840.113549.1.12.10.1.4") + b"\xa0\x02\x05\x00")
    whole = wrapped(b"\x30", b"\x02\x01\x03" + data(wrapped(b"\x30", data(wrapped(b"\x30", bag * 10_001)))))
    with pytest.raises(ValueError, match="too many entries"):
        read_pkcs12(whole, None)


@pytest.mark.parametrize(
    ("key", "bits", "plain", "encrypted"),
    [
        ("0000000000000000", 63, "0000000000000000", "ebb773f993278eff"),
        ("ffffffffffffffff", 64, "ffffffffffffffff", "278b27e42e2f0d49"),
        ("3000000000000000", 64, "1000000000000001", "30649edf9be7d2c2"),
        ("88", 64, "0000000000000000", "61a8a244adacccf0"),
        ("88bca90e90875a", 64, "0000000000000000", "6ccf4308974c267f"),
        ("88bca90e90875a7f0f79c384627bafb2", 64, "0000000000000000", "1a807d272bbe5db1"),
        ("88bca90e90875a7f0f79c384627bafb2", 128, "0000000000000000", "2269552ab0f85ca6"),
    ],
)
def test_rc2_decrypts_the_examples_of_its_rfc(key: str, bits: int, plain: str, encrypted: str) -> None:
    found = decrypted_cbc(bytes.fromhex(key), bytes(8), bytes.fromhex(encrypted), bits)
    assert found.hex() == plain

"""A reader of Java's own key stores (JKS), versions 1 and 2.

A file has the magic number, the version, the number of entries, the entries, and a SHA-1 digest of all before it that is
keyed with the password. The digest is checked if there is a password, and not otherwise, as in Java. Private keys are
encrypted one by one with passwords of their own.

Pure. Rules: every length is checked against what is left of the file, so that neither memory nor time exceeds what the
file's size allows. Aliases are lower case and the last entry of an alias counts, as in Java. A private key that is
protected by another algorithm than Sun's is refused.
Source: OpenJDK sun.security.provider.JavaKeyStore, sun.security.provider.KeyProtector.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import partial

from security.stores.entries import KeyEntry, StoreEntries, TrustedEntry

MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_SALT_BYTES = 20
_DIGEST_PHRASE = b"Mighty Aphrodite"
# AlgorithmIdentifier of 1.3.6.1.4.1.42.2.17.1.1, with parameters NULL or without.
_PROTECTORS = (bytes.fromhex("300e060a2b060104012a021101010500"), bytes.fromhex("300c060a2b060104012a02110101"))


def read_jks(data: bytes, password: str | None) -> StoreEntries:
    """Return the entries of a key store. Raises ValueError: it is damaged, or the password is wrong."""
    reader = _Reader(data)
    if reader.take(len(MAGIC)) != MAGIC:
        raise ValueError("it is not a Java key store (JKS)")
    version, count = reader.number(4), reader.number(4)
    if version not in (1, 2):
        raise ValueError(f"it is a Java key store (JKS) of the unknown version {version}")
    keys: dict[str, KeyEntry] = {}
    trusted: dict[str, TrustedEntry] = {}
    for _ in range(count):  # each entry takes bytes, so that a false count ends at the end of the file
        tag = reader.number(4)
        alias = _alias(reader)
        reader.take(8)  # the time of its creation
        keys.pop(alias, None)
        trusted.pop(alias, None)
        if tag == _KEY:
            protected = reader.block()
            chain = tuple(_certificate(reader, version) for _ in range(reader.number(4)))
            keys[alias] = KeyEntry(alias, partial(_decrypted, protected), chain)
        elif tag == _TRUSTED:
            trusted[alias] = TrustedEntry(alias, _certificate(reader, version))
        else:
            raise ValueError(f"the Java key store is damaged: an entry has the unknown kind {tag}")
    end = reader.position
    digest = reader.take(_DIGEST_BYTES)
    if password is not None:
        expected = hashlib.sha1(_text(password) + _DIGEST_PHRASE + data[:end], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, expected):
            raise ValueError("the password of the Java key store is wrong, or its bytes were changed")
    return StoreEntries(tuple(keys.values()), tuple(trusted.values()))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        """Raises ValueError."""
        end = self.position + length
        if end > len(self._data):
            raise ValueError("the Java key store is damaged: it ends too early, or a length in it is wrong")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length))

    def block(self) -> bytes:
        return self.take(self.number(4))

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")


def _alias(reader: _Reader) -> str:
    return reader.text().lower()


def _certificate(reader: _Reader, version: int) -> bytes:
    kind = reader.text() if version > 1 else "X.509"
    content = reader.block()
    if kind not in ("X.509", "X509"):
        raise ValueError("the Java key store has a certificate that is not X.509")
    return content


def _decrypted(protected: bytes, password: str) -> bytes:
    """Return the key, in the form of PKCS #8. Raises ValueError."""
    content = _protected_content(protected)
    salt, encrypted, digest = content[:_SALT_BYTES], content[_SALT_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    secret = _text(password)
    stream, block = bytearray(), salt
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    mask = int.from_bytes(stream[: len(encrypted)])
    key = (int.from_bytes(encrypted) ^ mask).to_bytes(len(encrypted))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise ValueError("the password of the private key is wrong")
    return key


def _protected_content(protected: bytes) -> bytes:
    """Return the octets of an EncryptedPrivateKeyInfo: SEQUENCE { algorithm, OCTET STRING }. Raises ValueError."""
    rest = _element(protected, 0x30)
    protector = next((each for each in _PROTECTORS if rest.startswith(each)), None)
    if protector is None:
        raise ValueError("a private key is protected by another algorithm than that of Java key stores")
    content = _element(rest[len(protector) :], 0x04)
    if len(content) <= _SALT_BYTES + _DIGEST_BYTES:
        raise ValueError("the Java key store is damaged: a private key is too short")
    return content


def _element(data: bytes, tag: int) -> bytes:
    """Return the content of the DER element that `data` consists of. Raises ValueError."""
    if len(data) > 2 and data[0] == tag:
        length, start = data[1], 2
        if length > 0x80:
            start += length - 0x80
            length = int.from_bytes(data[2:start])
        if length != 0x80 and len(data) == start + length:
            return data[start:]
    raise ValueError("the Java key store is damaged: a private key is not in the expected form")


def _text(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")

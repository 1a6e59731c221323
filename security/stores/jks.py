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

from security.stores import ber
from security.stores.entries import KeyEntry, PasswordError, StoreEntries

ENTRIES_MAX = 10_000
"""More than any store has."""
_MAGIC_BYTES = 4
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_SALT_BYTES = 20
_DIGEST_PHRASE = b"Mighty Aphrodite"
_PROTECTOR = ber.object_name("1.3.6.1.4.1.42.2.17.1.1")


def read_jks(data: bytes, password: str | None) -> StoreEntries:
    """Return the entries of a store. Raises ValueError, of which PasswordError is one."""
    reader = _Reader(data)
    reader.take(_MAGIC_BYTES)  # `forms` has checked it
    version, count = reader.number(4), reader.number(4)
    if version not in (1, 2):
        raise ValueError(f"it is a Java key store (JKS) of the unknown version {version}")
    if count > ENTRIES_MAX:
        raise ValueError(f"the Java key store is damaged: it has {count} entries by its own account")
    entries: dict[str, KeyEntry | bytes] = {}  # by alias; bytes are a trusted certificate
    for _ in range(count):
        tag = reader.number(4)
        alias = _alias(reader)
        reader.take(8)  # the time of its creation
        if tag == _KEY:
            protected = reader.block()
            chain = tuple(_certificate(reader, version) for _ in range(reader.number(4)))
            entries[alias] = KeyEntry(alias, partial(_decrypted, protected), chain)
        elif tag == _TRUSTED:
            entries[alias] = _certificate(reader, version)
        else:
            raise ValueError(f"the Java key store is damaged: an entry has the unknown kind {tag}")
    end = reader.position
    digest = reader.take(_DIGEST_BYTES)
    if password is not None:
        expected = hashlib.sha1(_text(password) + _DIGEST_PHRASE + data[:end], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, expected):
            raise PasswordError("the password of the store is wrong, or its bytes were changed")
    return StoreEntries(
        tuple(each for each in entries.values() if isinstance(each, KeyEntry)),
        tuple(each for each in entries.values() if isinstance(each, bytes)),
    )


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
        """Characters beyond the first plane are two surrogates, in Java as here. Raises ValueError."""
        try:
            return self.take(self.number(2)).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError("the Java key store is damaged: a text in it is not UTF-8") from None


def _alias(reader: _Reader) -> str:
    return reader.text().lower()


def _certificate(reader: _Reader, version: int) -> bytes:
    kind = reader.text() if version > 1 else "X.509"
    content = reader.block()
    if kind not in ("X.509", "X509"):
        raise ValueError("the Java key store has a certificate that is not X.509")
    if not ber.is_whole(content, ber.SEQUENCE):
        raise ValueError("the Java key store is damaged: a certificate is not in the expected form")
    return content


def _decrypted(protected: bytes, password: str | None) -> bytes:
    """Return the key, in the form of PKCS #8. Raises ValueError."""
    if password is None:
        raise PasswordError("the private key has a password, which is not set", of_key=True)
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
        raise PasswordError("the password of the private key is wrong", of_key=True)
    return key


def _protected_content(protected: bytes) -> bytes:
    """Return the octets of an EncryptedPrivateKeyInfo: SEQUENCE { algorithm, OCTET STRING }. Raises ValueError."""
    try:
        algorithm, octets = ber.parse(protected).parts(2, 2)
        protector, content = algorithm.parts(1, 2)[0].content, octets.octets()
    except ValueError:
        raise ValueError("the Java key store is damaged: a private key is not in the expected form") from None
    if protector != _PROTECTOR:
        raise ValueError(f"a private key is protected by an unknown algorithm ({ber.object_text(protector)})")
    if len(content) <= _SALT_BYTES + _DIGEST_BYTES:
        raise ValueError("the Java key store is damaged: a private key is too short")
    return content


def _text(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")

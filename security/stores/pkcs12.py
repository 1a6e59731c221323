"""A reader of PKCS12 stores, as Java's keytool, OpenSSL and others write them, with the entries that Java has of them.

Java's rules. A certificate is trusted if it has the attribute trustedKeyUsage, which keytool gives it. A private key has the
certificate with its local id, then those that lead to the authority, found by their names among all. A private key may have
another password than the store. Without a password, the store's integrity is not checked.
Unlike Java: certificates that are encrypted while no password is given are an error, not an empty store; a private key that is
not encrypted is read.

Pure. Rules: nesting, and the work of deriving keys, are bounded (`ber`, `password_encryption`). Secret keys and lists of
revoked certificates are left out.
Source: RFC 7292; OpenJDK sun.security.pkcs12.PKCS12KeyStore.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from security.stores import ber
from security.stores.ber import Element, object_name, object_text
from security.stores.entries import KeyEntry, PasswordError, StoreEntries
from security.stores.password_encryption import Effort, decrypted, is_intact

_DATA: Final = object_name("1.2.840.113549.1.7.1")
_SIGNED_DATA: Final = object_name("1.2.840.113549.1.7.2")
_ENCRYPTED_DATA: Final = object_name("1.2.840.113549.1.7.6")
_KEY_BAG: Final = object_name("1.2.840.113549.1.12.10.1.1")
_ENCRYPTED_KEY_BAG: Final = object_name("1.2.840.113549.1.12.10.1.2")
_CERTIFICATE_BAG: Final = object_name("1.2.840.113549.1.12.10.1.3")
_X509: Final = object_name("1.2.840.113549.1.9.22.1")
_ALIAS: Final = object_name("1.2.840.113549.1.9.20")
_LOCAL_ID: Final = object_name("1.2.840.113549.1.9.21")
_TRUSTED_USAGE: Final = object_name("2.16.840.1.113894.746875.1.1")
_VERSION: Final = 3
_BAGS_MAX: Final = 10_000
"""More than any store has."""
_Name = tuple[tuple[bytes, str], ...]
_NOT_SET: Final = "it has a password, which is not set"


def read_pkcs12(data: bytes, password: str | None) -> StoreEntries:
    """Return the entries of a store. Raises ValueError, of which PasswordError is one."""
    try:
        return _read(data, password)
    except PasswordError:
        raise
    except ValueError as error:
        raise ValueError(f"the PKCS12 store cannot be read: {error}") from None


def _read(data: bytes, password: str | None) -> StoreEntries:
    version, content, *mac = ber.parse(data).parts(2, 3)
    if version.number() != _VERSION:
        raise ValueError(f"its version {version.number()} is unknown")
    effort = Effort()
    kind, wrapped = content.parts(2, 2)
    if kind.content == _SIGNED_DATA:
        raise ValueError("it is signed with a key, where a password is expected")
    authenticated = _data(kind, wrapped)
    if mac and password is not None and not is_intact(mac[0], authenticated, password, effort):
        raise PasswordError("the password of the store is wrong, or its bytes were changed")
    bags = _Bags(effort)
    for part in ber.parse(authenticated).children():
        for bag in ber.parse(_safe_contents(part, password, effort)).children():
            bags.add(bag)
    return bags.entries()


def _data(kind: Element, wrapped: Element) -> bytes:
    """The content of a ContentInfo of the type data."""
    if kind.content != _DATA:
        raise ValueError(f"it has content of an unknown type ({object_text(kind.content)})")
    return wrapped.parts(1, 1)[0].octets()


def _safe_contents(part: Element, password: str | None, effort: Effort) -> bytes:
    kind, wrapped = part.parts(2, 2)
    if kind.content != _ENCRYPTED_DATA:
        return _data(kind, wrapped)
    _, encrypted = wrapped.parts(1, 1)[0].parts(2, 3)[:2]
    _, algorithm, content = encrypted.parts(3, 3)
    if password is None:
        raise PasswordError(_NOT_SET)
    try:
        return decrypted(algorithm, content.octets(), password, effort)
    except PasswordError:
        raise PasswordError("the password of the store is wrong") from None


@dataclass(frozen=True, slots=True)
class _Key:
    alias: str
    local_id: bytes | None
    value: Element = field(repr=False)
    is_encrypted: bool
    effort: Effort

    def decrypted(self, password: str | None) -> bytes:
        """Return the key in the form of PKCS #8. Raises ValueError."""
        if not self.is_encrypted:
            return self.value.data[self.value.begin : self.value.next]
        if password is None:
            raise PasswordError("the private key has a password, which is not set", of_key=True)
        algorithm, content = self.value.parts(2, 2)
        try:
            key = decrypted(algorithm, content.octets(), password, self.effort)
        except PasswordError:
            key = b""
        if not ber.is_whole(key, ber.SEQUENCE):
            raise PasswordError("the password of the private key is wrong", of_key=True)
        return key


@dataclass(frozen=True, slots=True)
class _Certificate:
    alias: str
    local_id: bytes | None
    content: bytes
    subject: _Name
    issuer: _Name


class _Bags:
    """The bags of a store, in their order."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._count = 0
        self._numbers = itertools.count(1)
        self._entries: dict[str, _Key | bytes] = {}  # by alias; bytes are a trusted certificate
        self._others: list[_Certificate] = []
        self._by_subject: dict[_Name, _Certificate] = {}

    def add(self, bag: Element) -> None:
        self._count += 1
        if self._count > _BAGS_MAX:
            raise ValueError("it has too many entries")
        kind, wrapped, *attributes = bag.parts(2, 3)
        values = dict(_attributes(attributes[0])) if attributes else {}
        name, local_id = _alias(values.get(_ALIAS)), values.get(_LOCAL_ID)
        identity = None if local_id is None else local_id.octets()
        value = wrapped.parts(1, 1)[0]
        if kind.content in (_KEY_BAG, _ENCRYPTED_KEY_BAG):
            alias = name or str(next(self._numbers))
            self._entries[alias] = _Key(alias, identity, value, kind.content == _ENCRYPTED_KEY_BAG, self._effort)
        elif kind.content == _CERTIFICATE_BAG:
            self._add_certificate(value, name, identity, is_trusted=_TRUSTED_USAGE in values)

    def _add_certificate(self, value: Element, name: str, local_id: bytes | None, *, is_trusted: bool) -> None:
        kind, wrapped = value.parts(2, 2)
        if kind.content != _X509:
            raise ValueError("it has a certificate that is not X.509")
        content = wrapped.parts(1, 1)[0].octets()
        subject, issuer = _names(content)
        certificate = _Certificate(name, local_id, content, subject, issuer)
        self._by_subject.setdefault(subject, certificate)
        if is_trusted:
            self._entries[name or str(next(self._numbers))] = content
        else:
            self._others.append(certificate)

    def entries(self) -> StoreEntries:
        keys = [each for each in self._entries.values() if isinstance(each, _Key)]
        chains = [self._chain(key, is_only=len(keys) == 1) for key in keys]
        own = {chain[0] for chain in chains if chain}
        return StoreEntries(
            tuple(KeyEntry(key.alias, key.decrypted, chain) for key, chain in zip(keys, chains, strict=True)),
            tuple(each for each in self._entries.values() if isinstance(each, bytes)),
            unmarked=sum(each.content not in own for each in self._others),
        )

    def _chain(self, key: _Key, *, is_only: bool) -> tuple[bytes, ...]:
        found = self._own(key, is_only=is_only)
        chain: list[bytes] = []
        while found is not None and found.content not in chain:
            chain.append(found.content)
            if found.issuer == found.subject:
                break
            found = self._by_subject.get(found.issuer)
        return tuple(chain)

    def _own(self, key: _Key, *, is_only: bool) -> _Certificate | None:
        if key.local_id is None:
            return next((each for each in self._others if each.local_id is None), None) if is_only else None
        matching = [each for each in self._others if each.local_id == key.local_id]
        return next((each for each in matching if each.alias == key.alias), matching[0] if matching else None)


def _attributes(attributes: Element) -> Iterator[tuple[bytes, Element]]:
    """Yield the name and the first value of each attribute."""
    for attribute in attributes.children():
        name, values = attribute.parts(2, 2)
        for value in itertools.islice(values.children(), 1):
            yield name.content, value


def _alias(value: Element | None) -> str:
    return "" if value is None else value.content.decode("utf-16-be", "replace").lower()


def _names(certificate: bytes) -> tuple[_Name, _Name]:
    """Return subject and issuer of a certificate. Raises ValueError."""
    if not ber.is_whole(certificate, ber.SEQUENCE):
        raise ValueError("a certificate is damaged")
    signed = ber.parse(certificate).parts(3, 3)[0]
    fields = [each for each in signed.parts(6, 10) if each.tag != ber.CONTEXT_0]
    issuer, subject = fields[2], fields[4]
    return _comparable(subject), _comparable(issuer)


def _comparable(name: Element) -> _Name:
    """A distinguished name in the form in which Java compares it: without differences of case, space and kind of string."""
    found = []
    for relative in name.children():
        for attribute in relative.children():
            kind, value = attribute.parts(2, 2)
            encoding = "utf-16-be" if value.tag == ber.BMP_TEXT else "utf-8"
            found.append((kind.content, " ".join(value.content.decode(encoding, "replace").lower().split())))
    return tuple(found)

"""A writer of Java's own key stores for tests, of both versions: what keytool writes, without Java."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_PROTECTOR = bytes.fromhex("300e060a2b060104012a021101010500")


@dataclass(frozen=True)
class Entry:
    """A key in the form of PKCS #8, with its password and chain; or a trusted certificate, which is the chain."""

    alias: str
    chain: Sequence[bytes]
    key: bytes | None = None
    password: str = ""


def jks(entries: Sequence[Entry], password: str, *, version: int = 2) -> bytes:
    body = struct.pack(">III", 0xFEEDFEED, version, len(entries))
    for entry in entries:
        name = entry.alias.encode()
        body += struct.pack(">IH", 2 if entry.key is None else 1, len(name)) + name + bytes(8)
        if entry.key is not None:
            protected = _protected(entry.key, entry.password)
            body += struct.pack(">I", len(protected)) + protected + struct.pack(">I", len(entry.chain))
        for certificate in entry.chain:
            kind = b"\0\5X.509" if version > 1 else b""
            body += kind + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1(_text(password) + b"Mighty Aphrodite" + body).digest()


def _protected(key: bytes, password: str) -> bytes:
    salt = block = hashlib.sha1(key).digest()
    stream = b""
    while len(stream) < len(key):
        block = hashlib.sha1(_text(password) + block).digest()
        stream += block
    content = (
        salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + hashlib.sha1(_text(password) + key).digest()
    )
    octets = b"\x04" + _length(content) + content
    return b"\x30" + _length(_PROTECTOR + octets) + _PROTECTOR + octets


def _length(content: bytes) -> bytes:
    return b"\x82" + struct.pack(">H", len(content))


def _text(password: str) -> bytes:
    return password.encode("utf-16-be")

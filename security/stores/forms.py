"""Which form a store has, by its first bytes. Those that are not read are named, with the command that converts them.

Java, too, goes by the content: it reads PKCS12 under the type JKS, and JKS under the type PKCS12.
Pure. Source: OpenJDK KeyStoreDelegator, JavaKeyStore, JceKeyStore; Bouncy Castle BcKeyStoreSpi, BcFKSKeyStoreSpi.
"""

from __future__ import annotations

from typing import Final

from security.stores import ber

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"

BYTES_MAX: Final = 16 * 1024 * 1024
"""More than any store has; what is larger is another file."""
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
# Bouncy Castle's stores begin with a version and a salt of 20 bytes; behind its iterations BKS has the kind of the first entry.
_BKS_VERSIONS: Final = (b"\0\0\0\1\0\0\0\x14", b"\0\0\0\2\0\0\0\x14")
_BKS_KIND_POSITION: Final = 32
_BKS_KINDS: Final = range(5)
_PEM_MARK: Final = b"-----BEGIN"
_CONVERT: Final = (
    "keytool -importkeystore -srckeystore STORE -srcstoretype {} -destkeystore STORE.p12 -deststoretype PKCS12"
)
_WITH_BOUNCY_CASTLE: Final = (
    " -providerpath bcprov.jar -providerclass org.bouncycastle.jce.provider.BouncyCastleProvider"
)


def form_of(data: bytes) -> str:
    """Return the form of a store. Raises ValueError: it is of none that is read."""
    if len(data) > BYTES_MAX:
        raise ValueError(f"it has {len(data)} bytes: more than a key store has")
    if data.startswith(_JKS_MAGIC):
        return JKS
    if data.startswith(_JCEKS_MAGIC):
        raise ValueError(_refusal("JCEKS", ""))
    if data.startswith(_BKS_VERSIONS):
        has_kind = data[_BKS_KIND_POSITION : _BKS_KIND_POSITION + 1] in map(_byte, _BKS_KINDS)
        raise ValueError(_refusal("BKS" if has_kind or data[3] > 1 else "UBER", _WITH_BOUNCY_CASTLE))
    if data[:1] == _byte(ber.SEQUENCE) and (data[1:2] >= b"\x80" or ber.is_whole(data, ber.SEQUENCE)):
        return _form_of_sequence(data)
    if _PEM_MARK in data:
        return PEM
    raise ValueError("it is empty" if not data else "it is neither PEM nor PKCS12 nor a Java key store (JKS)")


def _form_of_sequence(data: bytes) -> str:
    tags = _first_tags(data)
    if tags[1:2] == _byte(ber.INTEGER):
        return PKCS12
    if tags[1:3] in (bytes((ber.SEQUENCE, ber.CONTEXT_0)), bytes((ber.SEQUENCE, ber.INTEGER))):
        raise ValueError(
            "it is a single certificate in DER, not a store: openssl x509 -in FILE -out FILE.pem makes PEM of it"
        )
    if tags[1:3] == bytes((ber.SEQUENCE, ber.SEQUENCE)):
        raise ValueError(_refusal("BCFKS", _WITH_BOUNCY_CASTLE))
    return PKCS12  # whose reader says what is wrong with it


def _first_tags(data: bytes) -> bytes:
    """The tags of the first element, of the first in it, and of the first in that; the lengths may be wrong."""
    tags, position = bytearray(), 0
    while position + 1 < len(data) and len(tags) < 3:
        tags.append(data[position])
        length = data[position + 1]
        position += 2 + (length - 0x80 if length > 0x80 else 0)
    return bytes(tags)


def _refusal(kind: str, options: str) -> str:
    return f"it is a {kind} store, which is not read; this converts it: {_CONVERT.format(kind)}{options}"


def _byte(value: int) -> bytes:
    return bytes((value,))

"""Keys and certificates from the stores that Kafka's settings name: PEM, PKCS12 and JKS, also those that Java's keytool makes.

Pure: bytes in, keys and certificates out; passwords and keys are in no error and no repr. The first bytes of a store decide
what it is, not its name or `ssl.*.type`: Java, too, reads PKCS12 under the type JKS. PEM is read as Kafka reads it: line
breaks may be spaces, other text may stand between the entries.
Rules: `cryptography` is imported only for what needs it: PKCS12 and encrypted keys.
Source: Kafka DefaultSslEngineFactory (FileBasedStore, PemStore), SslFactory.CertificateEntries; KIP-651; RFC 7468, RFC 7292.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field, replace

from security.stores import ber
from security.stores.entries import KeyEntry, PasswordError
from security.stores.forms import JKS, PEM, form_of
from security.stores.java_order import order_of_jks, order_of_pkcs12
from security.stores.jks import read_jks
from security.stores.pkcs12 import read_pkcs12

_ENTRY = re.compile(r"-+BEGIN\s+([A-Z0-9 ]*?)\s*-+\s+(?:[^\r\n:]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*?)-+END\s+\1\s*-+")
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_BASE64_LINE = 64
# EC, Ed25519, Ed448, RSA, RSA with PSS, DSA
_KINDS = tuple(
    map(
        ber.object_name,
        (
            "1.2.840.10045.2.1",
            "1.3.101.112",
            "1.3.101.113",
            "1.2.840.113549.1.1.1",
            "1.2.840.113549.1.1.10",
            "1.2.840.10040.4.1",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key, in PEM form and not encrypted, and its certificates in DER form, its own first. `others` are keys of other
    kinds (RSA beside EC), each with its chain, for clients that cannot use this one."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]
    others: tuple[KeyStore, ...] = ()

    def as_pem(self) -> bytes:
        """Return the key and its chain, for OpenSSL."""
        return self.key + b"\n" + pem_of(self.chain)

    @property
    def other_pems(self) -> tuple[bytes, ...]:
        """The same of the other keys."""
        return tuple(each.as_pem() for each in self.others)


def read_key_store(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    """Return the private key of a store and its chain, as Java's key manager chooses it among several. `data` is PEM, PKCS12 or
    JKS; `password` is the store's, which PEM has none of; `key_password` is that of all its keys, None where it is the store's.
    Raises ValueError (PasswordError is one)."""
    form = form_of(data)
    if form == PEM:
        text = data.decode("utf-8", "replace")
        return read_pem_keys(text, text, key_password)
    entries = read_jks(data, password) if form == JKS else read_pkcs12(data, password)
    if not any(each.chain for each in entries.keys):
        raise ValueError("no private key with a certificate in it")
    by_alias = {each.alias: each for each in entries.keys}
    order = (order_of_jks if form == JKS else order_of_pkcs12)(tuple(by_alias))
    chosen: dict[int, KeyStore] = {}
    for alias in order:  # Java, too, needs the password of each key, whichever it shows
        key = _decrypted_entry(by_alias[alias], password, key_password)
        if by_alias[alias].chain:
            chosen.setdefault(_rank(key), KeyStore(_pem("PRIVATE KEY", key), by_alias[alias].chain))
    first, *others = (chosen[rank] for rank in sorted(chosen))
    return replace(first, others=tuple(others))


def read_trust_store(data: bytes, password: str | None) -> tuple[bytes, ...]:
    """Return the certificates of a store that Java trusts, in DER form. `data` is PEM, PKCS12 or JKS; `password` is the
    store's, None for PEM and where the integrity is not checked. Raises ValueError (PasswordError is one)."""
    form = form_of(data)
    if form == PEM:
        return read_pem_certificates(data.decode("utf-8", "replace"))
    entries = read_jks(data, password) if form == JKS else read_pkcs12(data, password)
    certificates = (*entries.trusted, *(each.chain[0] for each in entries.keys if each.chain))
    if not certificates and entries.unmarked:
        raise ValueError(
            f"no trusted certificate in it: {entries.unmarked} in it lack the attribute trustedKeyUsage, without which Java "
            "trusts none; keytool -importcert makes stores with it"
        )
    if not certificates:
        raise ValueError("no certificate in it")
    return certificates


def _decrypted_entry(entry: KeyEntry, password: str | None, key_password: str | None) -> bytes:
    """Raises ValueError."""
    try:
        return entry.decrypted(password if key_password is None else key_password)
    except PasswordError as error:
        if key_password is not None or password is None:
            raise PasswordError(f"{error} (alias {entry.alias!r})", of_key=True) from None
        raise PasswordError(
            f"the private key has another password than the store (alias {entry.alias!r})", of_key=True
        ) from None


def _rank(key: bytes) -> int:
    """Which of several keys goes first, by its kind: the order in which clients of today prefer them. `key` is PKCS #8."""
    try:
        kind = ber.parse(key).parts(2, 5)[1].parts(1, 2)[0].content
    except ValueError:
        return len(_KINDS)
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def pem_of(certificates: tuple[bytes, ...]) -> bytes:
    parts = []
    for der in certificates:
        text = base64.b64encode(der).decode()
        lines = "\n".join(text[start : start + _BASE64_LINE] for start in range(0, len(text), _BASE64_LINE))
        parts.append(f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    return "".join(parts).encode()


def read_pem_keys(key: str, chain: str, password: str | None) -> KeyStore:
    """Return the key and the certificates of two texts, which may be the same. Raises ValueError."""
    found = [(kind, content, text) for kind, content, text in _entries(key) if kind.endswith("PRIVATE KEY")]
    if not found:
        raise ValueError("no private key in it")
    if len(found) > 1:
        raise ValueError(f"one private key expected, but found {len(found)}")
    kind, content, text = found[0]
    is_encrypted = kind == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in text.partition("\n\n")[0].partition(kind)[2]
    if is_encrypted:
        if password is None:
            raise PasswordError("the private key is encrypted, and its password is not set", of_key=True)
        plain = _decrypted(_pem(kind, content) if kind == "ENCRYPTED PRIVATE KEY" else text.encode(), password)
    else:
        plain = _pem(kind, content)
    return KeyStore(plain, read_pem_certificates(chain))


def read_pem_certificates(text: str) -> tuple[bytes, ...]:
    """Return all certificates in DER form. Raises ValueError."""
    found = tuple(content for kind, content, _ in _entries(text) if kind in _CERTIFICATES)
    if not found:
        raise ValueError("no certificate in it")
    return found


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """The names of a certificate: its owner's, canonical and as text, and the alternative ones, as text each."""

    owner: bytes
    owner_text: str
    alternatives: frozenset[str]


def certificate_names(certificate: bytes) -> CertificateNames:
    """Raises ValueError."""
    from cryptography import x509  # noqa: PLC0415  see the rules

    read = x509.load_der_x509_certificate(certificate)
    try:
        extension = read.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        names = frozenset[str]()
    else:
        names = frozenset(f"{type(name).__name__}:{name.value}" for name in extension.value)
    return CertificateNames(read.subject.public_bytes(), read.subject.rfc4514_string(), names)


def check_replacement(old: KeyStore, new: KeyStore, *, allows_names: bool, allows_alternatives: bool) -> None:
    """Check that a store may be replaced while the broker runs. Raises ValueError."""
    if len(old.others) != len(new.others):
        raise ValueError(
            f"Keystore entries do not match, existing store contains {len(old.others) + 1} entries, "
            f"new store contains {len(new.others) + 1} entries"
        )
    for was, now in zip((old, *old.others), (new, *new.others), strict=True):
        _check_names(
            certificate_names(was.chain[0]),
            certificate_names(now.chain[0]),
            allows_names=allows_names,
            allows_alternatives=allows_alternatives,
        )


def _check_names(
    was: CertificateNames, now: CertificateNames, *, allows_names: bool, allows_alternatives: bool
) -> None:
    """Raises ValueError."""
    if not allows_names and was.owner != now.owner and was.owner_text.lower() != now.owner_text.lower():
        raise ValueError(
            f"Keystore DistinguishedName does not match: existing={was.owner_text}, new={now.owner_text}; "
            "ssl.allow.dn.changes allows it"
        )
    if not allows_alternatives and not now.alternatives >= was.alternatives:
        missing = ", ".join(sorted(was.alternatives - now.alternatives))
        raise ValueError(
            f"Keystore SubjectAltNames do not match: the new certificate lacks {missing}; ssl.allow.san.changes allows it"
        )


def _decrypted(pem: bytes, password: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        key = load_pem_private_key(pem, password.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError(f"the encryption of the private key is not supported: {error}") from None
    except (ValueError, TypeError):
        raise PasswordError("the password of the private key is wrong", of_key=True) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _entries(text: str) -> list[tuple[str, bytes, str]]:
    """Return kind, content and text of each entry. Raises ValueError."""
    entries = []
    for match in _ENTRY.finditer(text):
        try:
            content = base64.b64decode("".join(match[2].split()), validate=True)
        except binascii.Error:
            raise ValueError(f"an entry of kind {match[1]} is no base64") from None
        entries.append((" ".join(match[1].split()), content, match[0]))
    return entries


def _pem(kind: str, content: bytes) -> bytes:
    text = base64.b64encode(content).decode()
    lines = "\n".join(text[start : start + _BASE64_LINE] for start in range(0, len(text), _BASE64_LINE))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n".encode()

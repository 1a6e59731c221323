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
from dataclasses import dataclass, field

from security.stores import jks

_ENTRY = re.compile(r"-+BEGIN\s+([A-Z0-9 ]*?)\s*-+\s+(?:[^\r\n:]*:[^\r\n]*[\r\n]+)*([a-zA-Z0-9/+=\s]*?)-+END\s+\1\s*-+")
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_JCEKS = b"\xce\xce\xce\xce"
_CONVERSION = (
    "keytool -importkeystore -srckeystore STORE -srcstoretype {} -destkeystore STORE.p12 -deststoretype PKCS12"
)
_BASE64_LINE = 64


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key, in PEM form and not encrypted, and its certificates in DER form, its own first."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def as_pem(self) -> bytes:
        """Return all of it, for OpenSSL."""
        return self.key + b"\n" + pem_of(self.chain)


def read_key_store(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    """Return the private key of a store and its chain. `data` is PEM, PKCS12 or JKS; `password` is the store's, which PEM has
    none of; `key_password` is the key's, None where it is the store's. Raises ValueError."""
    if _is_pem(data):
        text = data.decode("utf-8", "replace")
        return read_pem_keys(text, text, key_password)
    if not data.startswith(jks.MAGIC):
        return read_pkcs12_keys(data, password or "", key_password)
    keys = jks.read_jks(data, password).keys
    if not keys or not keys[0].chain:
        raise ValueError("no private key in it")
    if key_password is None and password is None:
        raise ValueError("the password of the private key is not set")
    key = keys[0].decrypted(key_password if key_password is not None else password or "")
    return KeyStore(_pem("PRIVATE KEY", key), keys[0].chain)


def read_trust_store(data: bytes, password: str | None) -> tuple[bytes, ...]:
    """Return the trusted certificates of a store in DER form. `data` is PEM, PKCS12 or JKS; `password` is the store's, None
    for PEM and where a store is read without a check of its integrity. Raises ValueError."""
    if _is_pem(data):
        return read_pem_certificates(data.decode("utf-8", "replace"))
    if not data.startswith(jks.MAGIC):
        return read_pkcs12_certificates(data, password)
    entries = jks.read_jks(data, password)
    certificates = (
        *(each.certificate for each in entries.trusted),
        *(each.chain[0] for each in entries.keys if each.chain),
    )
    if not certificates:
        raise ValueError("no certificate in it")
    return certificates


def _is_pem(data: bytes) -> bool:
    """Whether a store is PEM. Raises ValueError for one of Java's that is not read."""
    if data.startswith(_JCEKS):
        raise ValueError(f"it is a JCEKS store, which is not read; {_CONVERSION.format('JCEKS')} converts it")
    return b"-----BEGIN" in data


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
            raise ValueError("the private key is encrypted, and ssl.key.password is not set")
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


def read_pkcs12_keys(data: bytes, password: str, key_password: str | None) -> KeyStore:
    """Return the key of a PKCS12 store, and its certificate with those that lead to its authority. Raises ValueError."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  see the rules
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    store = _pkcs12(data, password)
    if store.key is None or store.cert is None:
        raise ValueError("no private key with a certificate in it")
    if key_password not in (None, password):
        raise ValueError(
            "ssl.key.password is another one than the store's: keys of PKCS12 have the password of the store"
        )
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own = store.cert.certificate
    others = [additional.certificate for additional in store.additional_certs]
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return KeyStore(key, tuple(each.public_bytes(Encoding.DER) for each in chain))


def read_pkcs12_certificates(data: bytes, password: str | None) -> tuple[bytes, ...]:
    """Return all certificates of a PKCS12 store in DER form. Raises ValueError."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  see the rules

    store = _pkcs12(data, password)
    found = [] if store.cert is None else [store.cert, *()]
    certificates = tuple(each.certificate.public_bytes(Encoding.DER) for each in (*found, *store.additional_certs))
    if not certificates:
        raise ValueError("no certificate in it")
    return certificates


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
    was, now = certificate_names(old.chain[0]), certificate_names(new.chain[0])
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


def _pkcs12(data: bytes, password: str | None):  # type: ignore[no-untyped-def]
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError(f"its encryption is not supported: {error}") from None
    except ValueError:
        problem = "it has a password, which is not set" if password is None else "the password is wrong"
        raise ValueError(f"{problem}, or it is not PKCS12") from None


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
        raise ValueError("ssl.key.password is not the private key's") from None
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

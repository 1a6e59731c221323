"""Certificates for tests and for trying things out: an authority of one's own, and what it issues, in PEM form.

    authority = Authority.create("test")
    server = authority.issue("broker", hosts=("localhost", "127.0.0.1"))
    client = authority.issue("alice")

Rules: keys are on the curve P-256 by default, and in memory; nothing is written here. `cryptography` is imported when an
authority is made.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

VALID_DAYS = 365
# Clocks of machines differ.
VALID_SINCE_HOURS = 24


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A private key in PKCS 8 form, and its certificate; both in PEM form."""

    key: str = field(repr=False)
    certificate: str

    @property
    def both(self) -> str:
        """Return them as one text, as a key store of type PEM has them."""
        return self.key + self.certificate


class Authority:
    """Issues certificates. `certificate` is its own one, in PEM form, for those who trust it."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str) -> Authority:
        """Make one, with a key that only it has."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  see the rules

        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _signed(name, key, key, issuer=None, hosts=(), days=VALID_DAYS))

    @property
    def certificate(self) -> str:
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  see the rules

        return self._certificate.public_bytes(Encoding.PEM).decode()

    def issue(
        self, name: str, *, hosts: Sequence[str] = (), days: int = VALID_DAYS, is_rsa: bool = False
    ) -> IssuedCertificate:
        """Issue a certificate with the name "CN=<name>", for servers on `hosts` (names or addresses) and for clients. With
        `is_rsa` its key is RSA of 2048 bits."""
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  see the rules
        from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415

        key: EllipticCurvePrivateKey | RSAPrivateKey = (
            rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
        )
        certificate = _signed(name, key, self._key, issuer=self._certificate, hosts=hosts, days=days)
        encoding = serialization.Encoding.PEM
        return IssuedCertificate(
            key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
            certificate.public_bytes(encoding).decode(),
        )


def _signed(
    name: str,
    key: EllipticCurvePrivateKey | RSAPrivateKey,
    signer: EllipticCurvePrivateKey,
    *,
    issuer: x509.Certificate | None,
    hosts: Sequence[str],
    days: int,
) -> x509.Certificate:
    """Return a certificate; without an `issuer` that of an authority, which signs its own."""
    from cryptography import x509  # noqa: PLC0415  see the rules
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)  # noqa: TID251  the user's process, not the broker
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=VALID_SINCE_HOURS))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    builder = builder.add_extension(_key_usage(is_authority=issuer is None), critical=True)
    if issuer is not None:
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usages, critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return what RFC 5280 asks for, and Python from 3.13 on insists on: `ssl.create_default_context` is strict."""
    from cryptography import x509  # noqa: PLC0415  see the rules

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=not is_authority,  # of TLS 1.2 with RSA keys
        data_encipherment=False,
        key_agreement=not is_authority,  # of TLS 1.2 with keys on a curve
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415  see the rules

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)

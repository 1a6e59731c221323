"""Contexts with keys of several kinds: the algorithms of the peer decide which certificate it is shown."""

from __future__ import annotations

import datetime
import os
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from runtime.tls.context import TlsMaterial, check_handshake, client_context_of, server_context
from tests.tls_certificates import BOTH_VERSIONS, NOT_ASKED


def made(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> tuple[bytes, bytes]:
    """A key with its own certificate in PEM form, and the certificate in DER form."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    return pem, certificate.public_bytes(Encoding.DER)


def test_a_private_key_needs_a_system_that_has_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pem, _ = made(ec.generate_private_key(ec.SECP256R1()))
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ssl.SSLError, match="needs Linux"):
        client_context_of(TlsMaterial(pem, None, BOTH_VERSIONS), checks_host=True)


def test_the_peers_algorithms_decide_among_keys_of_several_kinds() -> None:
    curve, curve_certificate = made(ec.generate_private_key(ec.SECP256R1()))
    other, other_certificate = made(rsa.generate_private_key(65537, 2048))
    trusted = (curve_certificate, other_certificate)

    def client(suite: str, *, trusts: tuple[bytes, ...] = trusted) -> ssl.SSLContext:
        return client_context_of(TlsMaterial(None, trusts, ("TLSv1.2",), suite), checks_host=False)

    both = server_context(TlsMaterial(curve, None, BOTH_VERSIONS, other_keys=(other,)), NOT_ASKED)
    check_handshake(both, client("ECDHE-ECDSA-AES128-GCM-SHA256", trusts=(curve_certificate,)))
    check_handshake(both, client("ECDHE-RSA-AES128-GCM-SHA256", trusts=(other_certificate,)))
    check_handshake(both, client_context_of(TlsMaterial(None, (curve_certificate,), BOTH_VERSIONS), checks_host=False))
    one = server_context(TlsMaterial(curve, None, BOTH_VERSIONS), NOT_ASKED)
    with pytest.raises(ssl.SSLError):
        check_handshake(one, client("ECDHE-RSA-AES128-GCM-SHA256"))

"""Contexts of OpenSSL from keys and certificates in memory.

Rules: a private key is on no disk: OpenSSL, which reads files only, reads it from one in memory (memfd_create of Linux).
Every trusted certificate is an anchor, also one that another has signed, as in Java. Renegotiation is refused.
Source: Python's ssl; Kafka DefaultSslEngineFactory.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# Of TLS 1.3: a client that connects again needs no more than one.
TICKETS_PER_HANDSHAKE = 1


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """`keys` are a private key and its certificates in PEM form; `trusted` certificates in DER form, None for those of the
    operating system. `versions` are names as in "TLSv1.3", oldest first; `ciphers` is in OpenSSL's form. `other_keys` are keys
    of other kinds (RSA beside EC), each with its certificates, of which the peer's algorithms decide."""

    keys: bytes | None = field(repr=False)
    trusted: tuple[bytes, ...] | None
    versions: Sequence[str]
    ciphers: str | None = None
    other_keys: tuple[bytes, ...] = field(default=(), repr=False)


def server_context(material: TlsMaterial, verify_mode: ssl.VerifyMode) -> ssl.SSLContext:
    """Return the context of a server, which asks for clients' certificates by `verify_mode`. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, material)
    context.verify_mode = verify_mode
    context.num_tickets = TICKETS_PER_HANDSHAKE
    return context


def client_context_of(material: TlsMaterial, *, checks_host: bool) -> ssl.SSLContext:
    """Return the context of a client. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host
    _configure(context, material)
    return context


def _configure(context: ssl.SSLContext, material: TlsMaterial) -> None:
    versions = [_VERSIONS[name] for name in material.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if material.ciphers is not None:
        context.set_ciphers(material.ciphers)
    if material.trusted is None:
        context.load_default_certs(
            ssl.Purpose.SERVER_AUTH if context.protocol is ssl.PROTOCOL_TLS_CLIENT else ssl.Purpose.CLIENT_AUTH
        )
    else:
        context.load_verify_locations(cadata=b"".join(material.trusted))
    replace_keys(context, material)


def replace_keys(context: ssl.SSLContext, material: TlsMaterial) -> None:
    """Have a context show these certificates in new handshakes; open connections go on. Raises ssl.SSLError."""
    if material.keys is not None:
        for keys in (material.keys, *material.other_keys):
            _load_keys(context, keys)


def _load_keys(context: ssl.SSLContext, keys: bytes) -> None:
    if not hasattr(os, "memfd_create"):
        raise ssl.SSLError(1, "a private key is read from memory only, which needs Linux")
    descriptor = os.memfd_create("tls-keys")
    try:
        os.write(descriptor, keys)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # it is not encrypted
    finally:
        os.close(descriptor)


def check_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Let a client that checks no names connect to a server, in memory. Raises ssl.SSLError if it cannot."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert not client.check_hostname
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = 0
    while sides and waiting < len(sides) + 2:
        side = sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            sides.append(side)
            waiting += 1
        else:
            waiting = 0
    # With TLS 1.3 the client is done before the server has verified its certificate.
    if sides:
        raise ssl.SSLError(1, "the handshake does not end")

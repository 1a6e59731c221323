"""Certificates for tests, made once a process."""

from __future__ import annotations

import functools
import ssl

from barnabas.certificates import Authority, IssuedCertificate
from runtime.tls.context import TlsMaterial
from security.tls.key_store import read_pem_certificates, read_pem_keys

BOTH_VERSIONS = ("TLSv1.2", "TLSv1.3")


def authority(name: str = "test authority") -> Authority:
    return _authority(name)


def issued(name: str, *hosts: str, by: str = "test authority") -> IssuedCertificate:
    return _issued(name, hosts, by)


_authority = functools.cache(Authority.create)


@functools.cache
def _issued(name: str, hosts: tuple[str, ...], by: str) -> IssuedCertificate:
    return authority(by).issue(name, hosts=hosts)


def material(
    name: str | None, *hosts: str, by: str = "test authority", versions: tuple[str, ...] = BOTH_VERSIONS
) -> TlsMaterial:
    """What a side needs that trusts the authority `by`, with a certificate of it if it has a name."""
    both = None if name is None else issued(name, *hosts, by=by).both
    return TlsMaterial(
        None if both is None else read_pem_keys(both, both, None).as_pem(),
        read_pem_certificates(authority(by).certificate),
        versions,
    )


REQUIRED, NOT_ASKED = ssl.CERT_REQUIRED, ssl.CERT_NONE

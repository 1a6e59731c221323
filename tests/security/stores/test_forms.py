"""The form of a store by its first bytes; what is not read is named, with what converts it."""

from __future__ import annotations

import pytest

from security.stores.forms import BYTES_MAX, form_of
from security.tls.key_store import read_key_store, read_trust_store
from tests.jks_writer import jks
from tests.tls_certificates import authority, issued

SALT = bytes(range(20))
CERTIFICATE = b"\x30\x82\x01\x00\x30\x81\xc0\xa0\x03\x02\x01\x02"


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (jks([], ""), "JKS"),
        (b"\x30\x82\x01\x00\x02\x01\x03", "PKCS12"),
        (b"\x30\x80\x02\x01\x03", "PKCS12"),
        (b"\x30\x82", "PKCS12"),
        (b"0 s:CN = x\n-----BEGIN CERTIFICATE-----", "PEM"),
        ("\ufeff-----BEGIN PRIVATE KEY-----".encode(), "PEM"),
    ],
)
def test_forms_that_are_read(data: bytes, form: str) -> None:
    assert form_of(data) == form


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xce\xce\xce\xce\0\0\0\2", "a JCEKS store, .*keytool -importkeystore .* -srcstoretype JCEKS .*PKCS12$"),
        (b"\0\0\0\2\0\0\0\x14" + SALT + b"\0\0\4\0\1", "a BKS store, .*-srcstoretype BKS .*BouncyCastleProvider"),
        (b"\0\0\0\1\0\0\0\x14" + SALT + b"\0\0\4\0\4", "a BKS store"),
        (b"\0\0\0\1\0\0\0\x14" + SALT + b"\0\0\4\0\x3a", "a UBER store"),
        (b"\x30\x82\x03\x07\x30\x82\x02\x49\x30\x81", "a BCFKS store"),
        (CERTIFICATE, "a single certificate in DER"),
        (b"", "it is empty"),
        (b"nonsense", "neither PEM nor PKCS12 nor a Java key store"),
        (b"\xfe\xed\xfe", "neither PEM"),
        (bytes(BYTES_MAX + 1), "more than a key store has"),
    ],
)
def test_what_is_not_read_is_named(data: bytes, text: str) -> None:
    for read in (lambda: read_trust_store(data, "x"), lambda: read_key_store(data, "x", None)):
        with pytest.raises(ValueError, match=text):
            read()


def test_pem_is_recognised_whatever_the_password_is() -> None:
    both = issued("broker").both.encode() + authority().certificate.encode()
    assert len(read_trust_store(both, "x")) == 2
    assert read_key_store(both, "x", None).chain == read_trust_store(both, None)

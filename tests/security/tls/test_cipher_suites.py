"""The cipher suites that Java names, as OpenSSL knows them."""

from __future__ import annotations

import ssl

import pytest

from security.tls.cipher_suites import SUITES, TLS_1_3_SUITES, ChosenSuites, chosen_suites


def test_openssl_knows_every_suite() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for java, name in SUITES.items():
        context.set_ciphers(f"{name}:@SECLEVEL=0")
        found = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
        assert found == [name], java


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ((), ChosenSuites(None, True, True)),
        (("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",), ChosenSuites("ECDHE-RSA-AES128-GCM-SHA256", True, False)),
        (
            ("TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256"),
            ChosenSuites("AES256-SHA:DHE-DSS-AES128-SHA256", True, False),
        ),
        (tuple(TLS_1_3_SUITES), ChosenSuites(None, False, True)),
        (
            (*TLS_1_3_SUITES, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
            ChosenSuites("ECDHE-ECDSA-CHACHA20-POLY1305", True, True),
        ),
    ],
)
def test_names_say_which_versions_have_a_suite(names: tuple[str, ...], chosen: ChosenSuites) -> None:
    assert chosen_suites(names) == chosen


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("TLS_AES_256_GCM_SHA384",), "TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256 would be allowed, too"),
        (("SSL_RSA_WITH_RC4_128_MD5",), "ssl.cipher.suites: SSL_RSA_WITH_RC4_128_MD5 not supported"),
    ],
)
def test_what_cannot_be_done_is_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_suites(names)

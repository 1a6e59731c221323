"""The TLS settings of a listener, and why some stop the start."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.listener_values import ListenerValues
from security.tls.ssl_settings import ClientAuth, SslSettings
from security.tls.store_settings import StoreSettings

IN_LINE = {"ssl.keystore.key": "K", "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "C"}


def settings(given: dict[str, str], *, has_sasl: bool = False) -> SslSettings:
    return SslSettings.of(ListenerValues(BrokerSettings(given), "INSIDE"), has_sasl=has_sasl)


def test_the_defaults() -> None:
    found = settings({})
    assert (found.keys, found.trusted, found.client_auth) == (None, None, ClientAuth.NONE)
    assert (found.versions, found.checks_host, found.allows_names) == (("TLSv1.2", "TLSv1.3"), True, False)


def test_a_listeners_own_settings_come_first() -> None:
    found = settings(
        {
            "ssl.keystore.location": "/general.pem", "ssl.keystore.type": "PEM", "ssl.client.auth": "required",
            "listener.name.inside.ssl.keystore.location": "/own.pem", "listener.name.inside.ssl.client.auth": "requested",
            "listener.name.outside.ssl.keystore.location": "/other.pem",
        }
    )  # fmt: skip
    assert found.keys == StoreSettings(
        "listener.name.inside.ssl.keystore.location",
        "/own.pem",
        password_setting="ssl.keystore.password",
        key_password_setting="ssl.key.password",
    )
    assert found.client_auth is ClientAuth.REQUESTED
    assert found.files == ("/own.pem",)


def test_with_sasl_only_the_listeners_own_setting_asks_for_certificates() -> None:
    general = {"ssl.client.auth": "required"}
    assert settings(general, has_sasl=True).client_auth is ClientAuth.NONE
    own = {"listener.name.inside.ssl.client.auth": "required"}
    assert settings(own, has_sasl=True).client_auth is ClientAuth.REQUIRED


def test_stores_in_line() -> None:
    found = settings(
        {
            "ssl.keystore.type": "PEM", "ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN",
            "ssl.key.password": "hunter2", "ssl.truststore.type": "pem", "ssl.truststore.certificates": "CA",
        }
    )  # fmt: skip
    assert found.keys == StoreSettings(
        "ssl.keystore.key", None, None, "hunter2", "KEY", "CHAIN", key_password_setting="ssl.key.password"
    )
    assert found.trusted == StoreSettings("ssl.truststore.certificates", certificates="CA")
    assert found.files == ()
    assert "hunter2" not in repr(found)
    assert "KEY" not in repr(found).replace("ssl.keystore.key", "")


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),  # ssl.enabled.protocols decides
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": ""}, ("TLSv1.2",)),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, ("TLSv1.2",)),
    ],
)
def test_versions(given: dict[str, str], versions: tuple[str, ...]) -> None:
    assert settings(given).versions == versions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.keystore.type": "BKS"}, r"ssl.keystore.type=BKS must be JKS, PKCS12 or PEM"),
        ({"ssl.keystore.location": "/k"}, "key store password is not specified"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k"}, "key store password is not specified"),
        ({"ssl.keystore.password": "x"}, "SSL key store is not specified, but key store password is specified"),
        ({"ssl.truststore.password": "x"}, "SSL trust store is not specified, but trust store password"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k", "ssl.keystore.password": "x"}, "with PEM format"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/k", "ssl.truststore.password": "x"}, "for PEM"),
        ({"ssl.keystore.key": "K"}, "private key can be specified only for PEM"),
        ({"ssl.keystore.key": "K", "ssl.keystore.type": "PEM"}, "certificate chain is not specified"),
        ({"ssl.keystore.certificate.chain": "C"}, "private key is not specified"),
        (
            {
                "ssl.keystore.key": "K",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "C",
                "ssl.keystore.location": "/k",
            },
            "Both SSL key store location and separate private key",
        ),
        (
            {
                "ssl.keystore.key": "K",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "C",
                "ssl.keystore.password": "x",
            },
            "only key password may be specified",
        ),
        ({"ssl.truststore.certificates": "C"}, "trust store certs can be specified only for PEM"),
        (
            {"ssl.truststore.certificates": "C", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/t"},
            "Both SSL trust store location and separate trust certificates",
        ),
        (
            {"ssl.truststore.certificates": "C", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"},
            "trust store password cannot be specified for PEM",
        ),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol=SSLv3 must be one of"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not supported"),
        ({"ssl.cipher.suites": "TLS_NONE"}, "listener INSIDE: ssl.cipher.suites: TLS_NONE not supported"),
        (
            {
                "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA",
                "listener.name.inside.ssl.enabled.protocols": "TLSv1.3",
            },
            "ssl.cipher.suites has no suite of the protocols in listener.name.inside.ssl.enabled.protocols=TLSv1.3",
        ),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
    ],
)
def test_what_stops_the_start_names_the_setting(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(given)

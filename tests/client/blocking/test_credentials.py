"""What a process keeps: contexts of TLS until their files change, and what logs in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.certificates import Authority
from client.blocking.credentials import ProcessCredentials
from client.settings.bearer_tokens import BearerTokens
from client.settings.values import BearerSettings, LoginSettings, SettingsError, StoreSource, TlsSettings, TrustSettings


def test_a_context_is_made_again_when_a_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(Authority.create("old").certificate)
    tls = TlsSettings(TrustSettings(StoreSource("ssl.truststore.location", location=str(file))))
    credentials = ProcessCredentials()
    first = credentials.context(tls)
    assert credentials.context(tls) is first
    (tmp_path / "new").write_text(Authority.create("new").certificate)
    os.replace(tmp_path / "new", file)
    assert credentials.context(tls) is not first
    file.unlink()
    with pytest.raises(SettingsError, match=r"ssl\.truststore\.location"):
        credentials.context(tls)


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    credentials, login = ProcessCredentials(), LoginSettings("SCRAM-SHA-256", "alice", "secret")
    assert credentials.exchange(login).first() != credentials.exchange(login).first()


def test_nothing_of_a_login_stays_that_is_forgotten() -> None:
    tokens = BearerTokens(lambda: 0.0)
    credentials = ProcessCredentials(tokens)
    unsecured = (("unsecuredLoginStringClaim_sub", "alice"),)
    for login in (
        LoginSettings("SCRAM-SHA-256", "alice", "secret"),
        LoginSettings("OAUTHBEARER", bearer=BearerSettings(unsecured=unsecured)),
    ):
        credentials.exchange(login).first()
        credentials.forget(login)
        credentials.forget(login)  # there is nothing to forget
        assert not credentials._exchanges
        assert not tokens._tokens

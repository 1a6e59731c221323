"""A command's settings in the form of the library for records, and the warnings about its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas import EmbeddedBroker
from barnabas.commands import main
from client.settings.values import SettingsError
from tests.tls_certificates import authority, issued
from tools.cluster_access import ClusterAccess

SERVERS = {"bootstrap.servers": "a:1"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SASL = SERVERS | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def test_settings_in_the_form_of_the_library_for_records(tmp_path: Path) -> None:
    one = issued("client")
    files = {"ca": authority().certificate, "cert": one.certificate, "key": one.key}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    given = SASL | {
        "sasl.jaas.config": f'{SCRAM} username="alice" password="s\\"3;cret";',
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.endpoint.identification.algorithm": "",
    }
    access = ClusterAccess.of(given, "b:2")
    records = access.for_records()
    pems = [records.pop(f"ssl.{name}.pem").split() for name in ("ca", "certificate", "key")]
    assert [files["ca"].split() == pems[0], pems[1] == pems[2]] == [True, True]
    assert pems[1][-len(files["cert"].split()) :] == files["cert"].split()
    assert records == {
        "bootstrap.servers": "b:2", "client.id": "barnabas", "security.protocol": "SASL_SSL", "log_level": 0,
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": 's"3;cret',
        "ssl.endpoint.identification.algorithm": "none", "enable.ssl.certificate.verification": True,
    }  # fmt: skip


def test_a_bearer_token_is_a_callback_and_a_delegation_token_is_refused() -> None:
    module = 'a.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_a="1";'
    access = ClusterAccess.of(SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": module})
    text, _, _, extensions = access.for_records()["oauth_cb"]("")
    assert (text.count("."), extensions) == (2, {"a": "1"})
    token = ClusterAccess.of(SASL | {"sasl.jaas.config": f"{SCRAM} username=a password=b tokenauth=true;"})
    with pytest.raises(SettingsError, match="tokenauth=true, a delegation token"):
        token.for_records()


def test_a_command_warns_once_of_what_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And logs in with librdkafka's names, and by a bearer token that nobody signs."""
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=sasl_plaintext\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.config=principal=alice\n"
        "key.deserializer=a.B\nssl.trustore.location=/x\n"
    )
    broker = EmbeddedBroker(
        topics={"orders": 1},
        settings={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.plaintext.oauthbearer.sasl.jaas.config":
            f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";',
        },
    )  # fmt: skip
    with broker as running:
        options = ["--bootstrap-server", running.bootstrap_servers, "--command-config", str(config)]
        for command in (["topics", "list"], ["brokers", "log-dirs"]):
            code = main([*command, *options, "--json"])
            printed = capsys.readouterr()
            assert code == 0, printed.err
            assert json.loads(printed.out)
            warning = "barnabas: warning: unknown property ssl.trustore.location (is ssl.truststore.location meant?)\n"
            assert printed.err == warning
        users = [sys.executable, "-m", "barnabas.cli", "users", "list", "--json", *options]
        ended = subprocess.run(users, check=False, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr, json.loads(ended.stdout or "0")) == (0, warning, [])

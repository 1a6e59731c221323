"""Administrative commands log in with a delegation token; those that send and read records refuse it by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import EmbeddedBroker
from barnabas.commands import main
from client.admin import delegation_tokens
from client.blocking.cluster_client import ClusterClient
from client.settings.parsing import parse_client

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options of a command that has a token."""
    settings = {"delegation.token.secret.key": "secret"}
    with EmbeddedBroker(["t"], settings, security="sasl_plaintext", users=["alice"]) as broker:
        given = broker.client_settings("alice")
        with ClusterClient(parse_client(given)) as client:
            token = client.run(delegation_tokens.create()).login("SCRAM-SHA-256")
        login = {"username": token.username, "password": token.password, "tokenauth": "true"}
        module = " ".join([_SCRAM, *(f'{name}="{text}"' for name, text in login.items())])
        kept = {
            name: text
            for name, text in given.items()
            if name not in ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms", "log_level")
        }
        file = tmp_path_factory.mktemp("token") / "client.properties"
        file.write_text(
            "".join(
                f"{name}={text}\n"
                for name, text in {**kept, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{module};"}.items()
            )
        )
        yield ["--command-config", str(file)]


@pytest.mark.parametrize("command", ["topics create t", "topics describe t", "groups list", "configs describe --topic t",
                                     "brokers log-dirs", "transactions list", "cluster health --window-ms 0"])  # fmt: skip
def test_administration(command: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*command.split(), *(["--if-not-exists"] if "create" in command else []), *options])
    assert code == 0, capsys.readouterr().err


def test_records(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", *options]) == 1
    assert "tokenauth=true, a delegation token, which the library for records does not take" in capsys.readouterr().err

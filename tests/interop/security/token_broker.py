"""A broker whose clients authenticate with a password, a delegation token or a bearer token, and the files of Java clients."""

from __future__ import annotations

from pathlib import Path

from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port

SECURITY = "org.apache.kafka.common.security"
OAUTH_MODULE = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"
SCRAM_MODULE = f"{SECURITY}.scram.ScramLoginModule"
PLAIN_MODULE = f"{SECURITY}.plain.PlainLoginModule"
CLIENTS = "listener.name.clients"


def secured(kind: str, given: dict[str, str]) -> tuple[Barnabas | ApacheKafka, str]:
    """A broker of this kind, and `host:port` of its listener CLIENTS, which has SASL."""
    port, clients_port = lasting_port(), lasting_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{clients_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **given,
    }
    broker = ApacheKafka(settings, port=port) if kind == "kafka" else Barnabas(settings, port=port)
    return broker, f"127.0.0.1:{clients_port}"


def client_file(folder: Path, name: str, mechanism: str, jaas: str, **more: str) -> str:
    """The properties of a Java client; returns their path. Names of settings are written with underscores."""
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    lines |= {key.replace("_", "."): text for key, text in more.items()}
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
    return str(path)


def produced_and_consumed(bootstrap: str, client: str, topic: str) -> list[str]:
    """What the console tools read of what they wrote."""
    server = ["--bootstrap-server", bootstrap, "--topic", topic]
    tools.run("console-producer", [*server, "--producer.config", client], standard_input="one\ntwo\n")
    read = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--consumer.config", client]
    output = tools.run("console-consumer", [*server, *read], timeout_s=150)
    return [line for line in output.splitlines() if line in ("one", "two")]

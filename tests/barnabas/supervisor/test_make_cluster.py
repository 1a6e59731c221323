"""`make cluster` and `make cluster-secure`: three brokers without a JVM, run by the lines that make would run."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.security import SASL_SSL, GeneratedSecurity
from tests.barnabas.supervisor.several import PATIENCE_S, Several, until

ROOT = Path(__file__).resolve().parents[3]
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
FREE = [
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "barnabas.http.port=0",
    "barnabas.web.port=0",
]


def lines_of(target: str, *variables: str, settings: list[str]) -> list[list[str]]:
    """What make runs for a target, with this interpreter in the place of that of .venv-run."""
    arguments = " ".join(f"--override {setting}" for setting in (*FREE, *settings))
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "-o", ".venv-run/.web", target, f"ARGS={arguments}", *variables],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    ).stdout.replace("\\\n", " ")  # fmt: skip
    lines = [shlex.split(line) for line in told.splitlines()]
    return [[sys.executable, *line[line.index(".venv-run/bin/python") + 1 :]] for line in lines]


def status(page: str, password: str) -> int | None:
    """What the page answers to `admin`; None while it does not serve."""
    try:
        return httpx.get(page, auth=("admin", password), timeout=PATIENCE_S, trust_env=False).status_code
    except httpx.ConnectError:
        return None


def test_the_cluster_has_its_internal_topics_before_anybody_asks(tmp_path: Path) -> None:
    (line,) = lines_of("cluster", settings=["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path}/data"])
    with Several(tmp_path, 3, line=line) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})
        until(lambda: admin.list_topics(timeout=PATIENCE_S).topics.keys() >= set(INTERNAL_TOPICS))
        (created,) = admin.create_topics([NewTopic("orders", 1)]).values()
        created.result(PATIENCE_S)
        names, replicas = {*INTERNAL_TOPICS, "orders"}, dict[str, int]()

        def look() -> bool:
            """At whatever broker, which may know less than the one before."""
            topics = admin.list_topics(timeout=PATIENCE_S).topics
            replicas.update({name: len(topics[name].partitions[0].replicas) for name in names & topics.keys()})
            return replicas.keys() == names

        until(look)
        assert set(replicas.values()) == {3}
        assert brokers.stop(signal.SIGINT) == 0


def test_a_secured_cluster_has_users_and_acls(tmp_path: Path) -> None:
    folder = tmp_path / "secured"
    make, start = lines_of("cluster-secure", f"SECURED={folder}", settings=["listeners=SASL_SSL://localhost:0"])
    told = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert [line.split()[0] for line in told.splitlines() if line.endswith(".properties") and " " * 4 in line] == [
        "admin", "alice", "bob",
    ]  # fmt: skip
    assert (
        f"cluster health --bootstrap-server localhost:9092 --command-config {folder}/security/admin.properties" in told
    )
    security = GeneratedSecurity(SASL_SSL, folder / "security", ("alice", "bob"))  # what is there
    refused: list[str] = []

    def produce(user: str) -> None:
        producer = Producer({**servers, **security.client_settings(user), "acks": "all"})
        producer.produce("orders", b"1", on_delivery=lambda error, _: refused.append(error.name()) if error else None)
        assert producer.flush(PATIENCE_S) == 0

    with Several(tmp_path, 3, line=start) as brokers:
        servers = {"log_level": 0, "bootstrap.servers": brokers.bootstrap_servers}
        admin = AdminClient({**servers, **security.client_settings()})
        (created,) = admin.create_topics([NewTopic("orders", 1, 3)]).values()
        created.result(PATIENCE_S)
        produce("admin")
        assert refused == []
        produce("alice")
        assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
        with pytest.raises(KafkaException):
            AdminClient({**servers, **security.client_settings("alice"), "sasl.password": "guessed"}).list_topics(
                timeout=3
            )
        page = f"http://{brokers.addresses['web']}/v3/clusters"
        until(lambda: status(page, security.passwords["admin"]) == 200)
        assert status(page, "guessed") == 401
        assert brokers.stop() == 0
    assert not any(secret in brokers.log.read_text() for secret in security.passwords.values())

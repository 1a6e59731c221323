"""Real clients that authenticate by PLAIN and by SCRAM, in sessions that end: librdkafka, kafka-python, aiokafka and Apache
Kafka's tools.

The same tour against Apache Kafka 3.9.1 shows that it is right.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from client.reach import Access, why_unreached
from tests.interop.clients.test_js import tour
from tests.interop.conftest import BROKERS, GO_PROGRAM, need_java
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = pytest.mark.interop

__all__ = ["tour"]

Fresh = Callable[[str], str]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE_S = 60
SESSION_MS = 2_000
PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@dataclass
class Guarded:
    """A broker with the listeners PLAINTEXT, CLIENTS, and SESSIONS (where a session ends after SESSION_MS)."""

    broker: Broker
    clients: str
    sessions: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})

    def make_user(self, name: str) -> None:
        """Alter the credentials of a user, and wait until they are known."""
        upsertions = [
            UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, 8192), f"{name}-secret".encode())
            for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for upsertion in upsertions:
            (future,) = self.admin.alter_user_scram_credentials([upsertion]).values()
            future.result(PATIENCE_S)
        for mechanism in MECHANISMS[1:]:
            assert wait_until(
                lambda mechanism=mechanism: self.is_let_in(librdkafka(self.clients, mechanism, name)), PATIENCE_S
            )  # type: ignore[misc]

    @staticmethod
    def is_let_in(settings: dict[str, str]) -> bool:
        try:
            AdminClient({**settings, "log_level": "0"}).list_topics(timeout=5)
        except KafkaException:
            return False
        return True


def librdkafka(servers: str, mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, str]:
    return {
        "bootstrap.servers": servers, "security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism,
        "sasl.username": user, "sasl.password": password or f"{user}-secret",
    }  # fmt: skip


def guarded(broker: Broker) -> Guarded:
    port, session_port = lasting_port(), lasting_port()
    broker.port = broker.port or lasting_port()
    users = 'user_alice="alice-secret" user_bob="bob-secret"'
    broker.settings |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CLIENTS://127.0.0.1:{port},SESSIONS://127.0.0.1:{session_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,SESSIONS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
        **{
            f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config":
                f"{PACKAGE}.{MODULES[mechanism]} required {users if mechanism == 'PLAIN' else ''};"
            for listener in ("clients", "sessions") for mechanism in MECHANISMS
        },
    }  # fmt: skip
    return Guarded(broker, f"127.0.0.1:{port}", f"127.0.0.1:{session_port}")


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[Guarded]:
    with ExitStack() as stack:
        if request.param == "kafka":
            need_java()
        made = guarded(ApacheKafka() if request.param == "kafka" else Barnabas())
        stack.enter_context(made.broker)
        made.make_user("alice")
        yield made
        if request.param == "barnabas":
            text = made.broker.log.read_text()
            assert text and "-secret" not in text and "stored_key" not in text


def created(broker: Guarded, topic: str) -> str:
    (future,) = broker.admin.create_topics([NewTopic(topic, 1, 1)]).values()
    future.result(PATIENCE_S)
    return topic


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(broker: Guarded, fresh: Fresh, mechanism: str) -> None:
    settings, topic = librdkafka(broker.clients, mechanism), created(broker, fresh("rd"))
    producer = Producer(settings)
    for number in range(200):
        producer.produce(topic, b"value %d" % number)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    for _ in range(PATIENCE_S * 2):
        values += [message.value() or b"" for message in consumer.consume(200 - len(values), 0.5)]
        if len(values) == 200:
            break
    consumer.close()
    assert values == [b"value %d" % number for number in range(200)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "alice-secret")])
def test_others_are_told_that_they_failed(broker: Guarded, mechanism: str, user: str, password: str) -> None:
    errors: list[KafkaError] = []
    client = Producer(
        {**librdkafka(broker.clients, mechanism, user, password), "error_cb": errors.append, "log_level": 0}
    )
    assert wait_until(
        lambda: client.poll(0.1) == 0 and any(each.code() == KafkaError._AUTHENTICATION for each in errors), 30
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Guarded, fresh: Fresh, mechanism: str) -> None:
    topic = created(broker, fresh("python"))
    settings = {
        "bootstrap_servers": broker.clients, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice", "sasl_plain_password": "alice-secret",
    }  # fmt: skip
    producer = KafkaProducer(**settings)
    futures = [producer.send(topic, b"value %d" % number) for number in range(50)]
    assert [future.get(PATIENCE_S).offset for future in futures] == list(range(50))
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1000, **settings)
    values = [next(consumer).value for _ in range(50)]
    consumer.close()
    assert values == [b"value %d" % number for number in range(50)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: Guarded, fresh: Fresh, mechanism: str) -> None:
    topic = created(broker, fresh("aio"))

    async def tour() -> None:
        settings = {
            "bootstrap_servers": broker.clients, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice", "sasl_plain_password": "alice-secret",
        }  # fmt: skip
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(50):
                await producer.send_and_wait(topic, b"value %d" % number)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            values = [(await consumer.getone()).value for _ in range(50)]
        assert values == [b"value %d" % number for number in range(50)]

    asyncio.run(asyncio.wait_for(tour(), PATIENCE_S))


def java_settings(folder: Path, mechanism: str) -> str:
    path = folder / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={PACKAGE}.{MODULES[mechanism]} required username="alice" password="alice-secret";\n'
    )
    return str(path)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_apache_kafkas_tools_over_several_sessions(
    broker: Guarded, fresh: Fresh, tmp_path: Path, mechanism: str
) -> None:
    """The Java client authenticates again in mid-stream."""
    need_java()
    topic, settings = created(broker, fresh("java")), java_settings(tmp_path, mechanism)
    sending = ["--topic", topic, "--num-records", "800", "--record-size", "100", "--throughput", "100"]
    output = tools.run("producer-perf-test", [
        *sending, "--producer.config", settings, "--producer-props", f"bootstrap.servers={broker.sessions}", "retries=0",
        "delivery.timeout.ms=60000", "acks=all",
    ])  # fmt: skip
    assert "800 records sent" in output, output
    assert "WARN" not in output and "ERROR" not in output, output
    taking = [
        "--bootstrap-server",
        broker.sessions,
        "--topic",
        topic,
        "--consumer.config",
        settings,
        "--from-beginning",
    ]
    output = tools.run("console-consumer", [*taking, "--max-messages", "800", "--timeout-ms", "60000"], timeout_s=150)
    assert "Processed a total of 800 messages" in output, output


def test_librdkafka_over_several_sessions(broker: Guarded, fresh: Fresh) -> None:
    topic, refused = created(broker, fresh("sessions")), []
    producer = Producer({**librdkafka(broker.sessions, "SCRAM-SHA-256"), "acks": "all"})
    for number in range(100):
        producer.produce(
            topic, b"value %d" % number,
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )  # fmt: skip
        producer.poll(0)
        time.sleep(0.06)  # three sessions long
    assert producer.flush(PATIENCE_S) == 0 and not refused


def run_program(command: list[str], folder: Path, broker: Guarded, mechanism: str) -> str:
    """A client of another language, by environment variables."""
    given = {
        "BOOTSTRAP": broker.sessions,
        "MECHANISM": mechanism,
        "SASL_USER": "alice",
        "SASL_PASSWORD": "alice-secret",
    }
    environment = {**os.environ, **given, "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(400)  # the first one compiles
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_over_several_sessions(broker: Guarded, tours: Path, mechanism: str) -> None:
    output = run_program([str(tours), "-test.run", "^TestSasl$", "-test.v"], GO_PROGRAM, broker, mechanism)
    assert "--- PASS: TestSasl" in output, output


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkajs_over_several_sessions(broker: Guarded, tour: Path, mechanism: str) -> None:
    output = run_program(["node", "--test", "sasl.js"], tour.parent, broker, mechanism)
    assert "pass 1" in output, output


def test_apache_kafkas_configs_tool(broker: Guarded, fresh: Fresh, tmp_path: Path) -> None:
    """Users by --bootstrap-server: made, shown, deleted."""
    need_java()
    name = fresh("tool")
    user = ["--bootstrap-server", broker.broker.bootstrap_servers, "--entity-type", "users", "--entity-name", name]
    tools.run("configs", [*user, "--alter", "--add-config", f"SCRAM-SHA-256=[iterations=4096,password={name}-secret]"])
    assert wait_until(lambda: broker.is_let_in(librdkafka(broker.clients, "SCRAM-SHA-256", name)), PATIENCE_S)
    assert "SCRAM-SHA-256" in tools.run("configs", [*user, "--describe"])
    tools.run("configs", [*user, "--alter", "--delete-config", "SCRAM-SHA-256"])
    assert wait_until(lambda: not broker.is_let_in(librdkafka(broker.clients, "SCRAM-SHA-256", name)), PATIENCE_S)


def test_a_user_that_is_deleted_is_let_in_no_more(broker: Guarded, fresh: Fresh) -> None:
    name = fresh("gone")
    broker.make_user(name)
    deletion = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    (future,) = broker.admin.alter_user_scram_credentials([deletion]).values()
    future.result(PATIENCE_S)
    assert wait_until(lambda: not broker.is_let_in(librdkafka(broker.clients, "SCRAM-SHA-512", name)), PATIENCE_S)
    assert wait_until(lambda: broker.is_let_in(librdkafka(broker.clients, "SCRAM-SHA-256", name)), PATIENCE_S)


def test_a_client_without_login_or_with_another_is_told(broker: Guarded) -> None:
    """What `barnabas` commands say of an address."""
    servers = [broker.clients, broker.broker.bootstrap_servers]
    clients, without = servers
    offered = ", ".join(sorted(MECHANISMS))
    found = why_unreached(servers, Access("PLAINTEXT", None, None))
    told = re.fullmatch(
        rf"{clients} wants a login \((.*)\): security.protocol=PLAINTEXT has none, SASL_PLAINTEXT has one",
        str(found[clients]),
    )
    assert told is not None and ", ".join(sorted(told[1].split(", "))) == offered
    assert found[without] is None
    assert why_unreached(servers, Access("SASL_PLAINTEXT", None, "SCRAM-SHA-256")) == {
        clients: None,
        without: f"{without} takes no login: security.protocol=SASL_PLAINTEXT has one, PLAINTEXT has none",
    }
    refused = why_unreached([clients], Access("SASL_PLAINTEXT", None, "GSSAPI"))[clients]
    assert refused is not None and refused.startswith(f"{clients} does not take sasl.mechanism=GSSAPI, but ")

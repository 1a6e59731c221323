"""Real clients over TLS with certificates of their own: librdkafka, kafka-python, aiokafka, Apache Kafka's tools with PKCS12.

The same tour against Apache Kafka 3.9.1 shows that it is right.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kafka import KafkaConsumer, KafkaProducer

from client.reach import Access, why_unreached
from tests.interop.conftest import BROKERS, need_java
from tests.interop.security.tls_files import HOSTS, STORE_PASSWORD, TlsFiles
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
PATIENCE_S = 60


@dataclass
class Secured:
    """A broker with the listeners PLAINTEXT, SSL (certificates required) and OPEN (TLS without)."""

    broker: Broker
    files: TlsFiles
    ssl: str
    open: str


def secured(broker: Broker, files: TlsFiles, kind: str) -> Secured:
    port, open_port = lasting_port(), lasting_port()
    broker.port = broker.port or lasting_port()
    broker.settings |= {
        **files.server(kind=kind),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SSL://localhost:{port},OPEN://localhost:{open_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,OPEN:SSL",
        "ssl.client.auth": "required", "listener.name.open.ssl.client.auth": "none",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/L,DEFAULT",
        "password.encoder.secret": "encoder-secret",
    }  # fmt: skip
    return Secured(broker, files, f"localhost:{port}", f"localhost:{open_port}")


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = TlsFiles(tmp_path_factory.mktemp("tls"))
    with ExitStack() as stack:
        if request.param == "kafka":
            need_java()
            made = secured(ApacheKafka(), files, "PKCS12")
        else:
            made = secured(Barnabas(), files, "PKCS12")
        stack.enter_context(made.broker)
        yield made


def produced_and_consumed(settings: dict[str, str], topic: str) -> list[bytes]:
    producer = Producer(settings)
    for number in range(200):
        producer.produce(topic, b"value %d" % number * 100)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        for _ in range(PATIENCE_S * 2):
            for message in consumer.consume(200 - len(values), 0.5):
                assert not message.error(), message.error()
                values.append(message.value() or b"")
            if len(values) == 200:
                break
    finally:
        consumer.close()
    return values


def created(settings: dict[str, str], topic: str) -> str:
    admin = AdminClient(settings)
    (future,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    future.result(PATIENCE_S)
    return topic


def test_librdkafka(broker: Secured, fresh: Fresh) -> None:
    settings = {"bootstrap.servers": broker.ssl, **broker.files.librdkafka_client()}
    topic = created(settings, fresh("rd"))
    assert produced_and_consumed(settings, topic) == [b"value %d" % number * 100 for number in range(200)]


def test_a_client_without_a_certificate(broker: Secured, fresh: Fresh) -> None:
    """It is refused where one is required, and served where none is."""
    anonymous = {"security.protocol": "ssl", "ssl.ca.location": broker.files.path("trust.pem")}
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": broker.ssl, "log_level": 0, **anonymous}).list_topics(timeout=5)
    settings = {"bootstrap.servers": broker.open, **anonymous}
    topic = created(settings, fresh("open"))
    assert len(produced_and_consumed(settings, topic)) == 200


def test_a_client_of_another_authority_is_refused(broker: Secured, tmp_path: Path) -> None:
    stranger = TlsFiles(tmp_path)
    settings = {**stranger.librdkafka_client(), "ssl.ca.location": broker.files.path("trust.pem")}
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": broker.ssl, "log_level": 0, **settings}).list_topics(timeout=5)


def test_kafka_python(broker: Secured, fresh: Fresh) -> None:
    files, topic = broker.files, fresh("python")
    settings = {
        "bootstrap_servers": broker.ssl, "security_protocol": "SSL", "ssl_cafile": files.path("trust.pem"),
        "ssl_certfile": files.path("alice.crt"), "ssl_keyfile": files.path("alice.key"),
    }  # fmt: skip
    producer = KafkaProducer(**settings)
    futures = [producer.send(topic, b"value %d" % number) for number in range(100)]
    assert [future.get(PATIENCE_S).offset for future in futures] == list(range(100))
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1000, **settings)
    values = [next(consumer).value for _ in range(100)]
    consumer.close()
    assert values == [b"value %d" % number for number in range(100)]


def test_aiokafka(broker: Secured, fresh: Fresh) -> None:
    files, topic = broker.files, fresh("aio")
    context = ssl.create_default_context(cafile=files.path("trust.pem"))
    context.load_cert_chain(files.path("alice.crt"), files.path("alice.key"))

    async def tour() -> None:
        settings = {"bootstrap_servers": broker.ssl, "security_protocol": "SSL", "ssl_context": context}
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(100):
                await producer.send_and_wait(topic, b"value %d" % number)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            values = [(await consumer.getone()).value for _ in range(100)]
        assert values == [b"value %d" % number for number in range(100)]

    asyncio.run(asyncio.wait_for(tour(), PATIENCE_S))


def test_apache_kafkas_tools_with_pkcs12(broker: Secured, fresh: Fresh) -> None:
    need_java()
    topic, client = fresh("java"), str(broker.files.java_client())
    server = ["--bootstrap-server", broker.ssl]
    tools.run("topics", [*server, "--command-config", client, "--create", "--topic", topic])
    lines = [f"line {number}" for number in range(50)]
    sending = [*server, "--topic", topic, "--producer.config", client]
    tools.run("console-producer", sending, standard_input="".join(f"{line}\n" for line in lines))
    taking = [*server, "--topic", topic, "--consumer.config", client, "--from-beginning", "--max-messages", "50"]
    output = tools.run("console-consumer", [*taking, "--timeout-ms", "60000"], timeout_s=150)
    assert [line for line in output.splitlines() if line.startswith("line ")] == lines


def test_a_certificate_is_replaced_while_it_runs(broker: Secured) -> None:
    """By IncrementalAlterConfigs, on one listener; one with another name is refused."""
    files = broker.files
    files.issue("other", ("localhost",))
    files.issue("renewed", (*HOSTS, "renewed.example"), owner="broker")
    settings = {"bootstrap.servers": broker.ssl, **files.librdkafka_client()}
    admin = AdminClient(settings)

    def alter(**values: str) -> None:
        entries = [
            ConfigEntry(f"listener.name.open.ssl.keystore.{name}", value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=entries)
        (future,) = admin.incremental_alter_configs([resource]).values()
        future.result(PATIENCE_S)

    with pytest.raises(KafkaException, match="DistinguishedName does not match"):
        alter(location=files.path("other.p12"), password=STORE_PASSWORD, type="PKCS12")

    renewed = Path(files.path("renewed.crt")).read_text().split()

    def is_renewed() -> bool:
        """Each network thread of Apache Kafka has it a little sooner or later."""
        address = ("localhost", int(broker.open.rpartition(":")[2]))
        return all(ssl.get_server_certificate(address).split() == renewed for _ in range(6))

    assert not is_renewed()
    alter(location=files.path("renewed.p12"), password=STORE_PASSWORD, type="PKCS12")
    assert wait_until(is_renewed, PATIENCE_S)
    assert admin.list_topics(timeout=PATIENCE_S).brokers  # the other listener, and its connections, go on
    broker.broker.stop()
    broker.broker.start()
    assert is_renewed()


def test_a_client_of_another_protocol_is_told_which(broker: Secured) -> None:
    """What `barnabas` commands say of an address."""
    plain, trusting = Access("PLAINTEXT", None, None), ssl.create_default_context(cafile=broker.files.path("trust.pem"))
    servers = [broker.ssl, broker.open, broker.broker.bootstrap_servers]
    tls, open_tls, without = servers
    assert why_unreached(servers, plain) == {
        tls: f"{tls} speaks TLS: security.protocol=PLAINTEXT does not, SSL does",
        open_tls: f"{open_tls} speaks TLS: security.protocol=PLAINTEXT does not, SSL does",
        without: None,
    }
    assert why_unreached(servers, Access("SSL", trusting, None)) == {
        tls: f"{tls} wants another certificate of the client, or one at all: ssl.keystore.location names it",
        open_tls: None,
        without: f"{without} speaks no TLS: security.protocol=SSL does, PLAINTEXT does not",
    }
    found = why_unreached([open_tls], Access("SSL", ssl.create_default_context(), None))[open_tls]
    assert found is not None and found.startswith(f"the certificate of {open_tls} is not accepted: ")

"""Listeners beside a running Apache Kafka 3.9.1: what it opens, what it registers, what it tells its clients."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from metadata.features import REGISTERED
from protocol.messages.metadata import MetadataRequest
from tests.differential.wire import NoResponse, Wire
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.oracle
# More than four, and some whose hashes meet: so many that a map in the node has an order of its own.
NAMES = ("A", "INTERNAL", "C", "INSIDE", "REPLICATION", "F")


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with ZooKeeper() as server:
        yield server


def start_both(zookeeper: ZooKeeper, chroot: str, port: int, settings: dict[str, str]) -> Iterator[Broker]:
    """One after the other, on the same port."""
    connect = f"{zookeeper.connect}/{chroot}"
    for broker in (
        KafkaServer(f"{connect}-apache", broker_id=1, port=port, settings=settings),
        Barnabas(settings, zookeeper=f"{connect}-ours", broker_id=1, port=port),
    ):
        with broker:
            yield broker


def told(host: str, port: int) -> tuple[str, int]:
    """What a client that connects to `host` hears of the one broker there is."""
    wire = Wire(host, port)
    try:
        answer: Any = wire.ask(MetadataRequest(topics=[]), 9, 30)
    finally:
        wire.close()
    assert not isinstance(answer, NoResponse), answer
    (broker,) = answer.brokers
    return broker.host, broker.port


def test_the_node_and_metadata_tell_the_same_endpoints_in_the_same_order(zookeeper: ZooKeeper) -> None:
    ports = {name: lasting_port() for name in NAMES}
    settings = {
        "listeners": ",".join(f"{name}://:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(
            (
                *("REPLICATION://e:1", "F://127.0.0.1:5", "C://:2", "A://2001:DB8::0:1:3"),
                *(f"INTERNAL://127.0.0.1:{ports['INTERNAL']}", "INSIDE://[::1]:0"),
            )
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in NAMES),
        "inter.broker.listener.name": "internal",
    }
    nodes, metadata = [], []
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        for broker in start_both(zookeeper, "order", ports["INTERNAL"], settings):
            chroot = str(broker.zookeeper).partition("/")[2]
            node = client.get(f"/{chroot}/brokers/ids/1")[0]
            before, _, rest = node.partition(b'"timestamp"')
            features = re.search(rb'"features":({(?:[^{}]|{[^{}]*})*})', before)
            assert features is not None
            assert json.loads(features[1]) == (REGISTERED if broker.kind == "barnabas" else {})
            before = before.replace(features[1], b"")
            nodes.append((before, rest.partition(b'"')[2].partition(b'"')[2]))
            metadata.append({name: told("127.0.0.1", port) for name, port in ports.items()})
            endpoints = json.loads(node)["endpoints"]
            names = [endpoint.partition(":")[0] for endpoint in endpoints]
            assert names == ["REPLICATION", "F", "C", "A", "INTERNAL", "INSIDE"]
    finally:
        client.stop()
        client.close()
    assert nodes[0] == nodes[1]
    assert metadata[0] == metadata[1]
    assert metadata[0]["A"] == ("2001:DB8::0:1", 3) and metadata[0]["INSIDE"] == ("::1", ports["INSIDE"])


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_wildcard_is_both_families(zookeeper: ZooKeeper, host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    port = lasting_port()
    settings = {"listeners": f"PLAINTEXT://{host}:{port}", "advertised.listeners": f"PLAINTEXT://localhost:{port}"}
    for _ in start_both(zookeeper, f"wildcard-{host.strip('[]').replace(':', 'x')}", port, settings):
        assert told("127.0.0.1", port) == told("::1", port) == ("localhost", port)

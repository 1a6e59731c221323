"""Records what jmx_exporter gives for Apache Kafka 3.9.1: `python -m tests.oracle.record_metrics AGENT.jar RULES.yml`.

Two brokers over ZooKeeper run with the Java agent (Maven: io.prometheus.jmx:jmx_prometheus_javaagent:0.20.0) and its example
`kafka-2_0_0.yml`; clients with quotas produce, consume, commit and use transactions. Names, types by the rule, and names of
labels are written to `tests/broker/observability/jmx-exporter-3.9.txt`; values are not.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle import java
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.zookeeper import ZooKeeper

RECORDED = Path(__file__).parent.parent / "broker" / "observability" / "jmx-exporter-3.9.txt"
HEAD = """\
# Metrics of Apache Kafka 3.9.1 in ZooKeeper mode as jmx_exporter 0.20.0 writes them with its example kafka-2_0_0.yml:
# name, type by the rule, labels. Written by: python -m tests.oracle.record_metrics
"""
SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "log.cleaner.backoff.ms": "500",
}
QUOTAS = "producer_byte_rate=200000,consumer_byte_rate=100000000,request_percentage=200,controller_mutation_rate=1000"
PATIENCE_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent", type=Path)
    parser.add_argument("rules", type=Path)
    arguments = parser.parse_args()
    ports = [lasting_port(), lasting_port()]
    options = [
        (*java.QUICK_START, f"-javaagent:{arguments.agent.resolve()}=127.0.0.1:{port}:{arguments.rules.resolve()}")
        for port in ports
    ]
    with (
        ZooKeeper() as zookeeper,
        KafkaServer(zookeeper.connect, broker_id=0, settings=SETTINGS, options=options[0]) as first,
        KafkaServer(zookeeper.connect, broker_id=1, settings=SETTINGS, options=options[1]),
    ):
        _use(first.bootstrap_servers)
        pages = [_page(port) for port in ports]
    lines = sorted({line for page in pages for line in _lines(page)})
    RECORDED.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return 0


def _use(bootstrap: str) -> None:
    """Make a broker and its clients do what has metrics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "limited"})
    topics = [NewTopic("orders", 2, 2), NewTopic("compacted", 1, 2, config={"cleanup.policy": "compact"})]
    for future in admin.create_topics(topics).values():
        future.result(PATIENCE_S)
    change = ["--bootstrap-server", bootstrap, "--alter", "--add-config", QUOTAS]
    command = java.command(
        "kafka.admin.ConfigCommand", [*change, "--entity-type", "clients", "--entity-name", "limited"]
    )
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    admin.create_topics([NewTopic("more", 1, 1)])["more"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "limited"})
    for number in range(2_000):
        producer.produce("orders", key=b"%d" % number, value=bytes(500))
        producer.produce("compacted", key=b"%d" % (number % 10), value=bytes(100))
        producer.poll(0)
    producer.flush(PATIENCE_S)
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    transactional.init_transactions(PATIENCE_S)
    transactional.begin_transaction()
    transactional.produce("orders", value=b"t")
    transactional.commit_transaction(PATIENCE_S)
    group = {"group.id": "g", "client.id": "limited", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group})
    consumer.subscribe(["orders"])
    deadline_s, count = time.monotonic() + PATIENCE_S, 0
    while count < 1_000 and time.monotonic() < deadline_s:
        count += consumer.poll(1) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def _page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        page: bytes = response.read()
    return page.decode()


def _lines(page: str) -> list[str]:
    """Name, type and labels of Kafka's metrics. The agent's type line of a counter `x_count` says `x_count_total`; the label
    that contains a client's id is that of the first fetcher."""
    types: dict[str, str] = {}
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif line.startswith("kafka_"):
            found = re.match(r"(\w+)(?:\{(.*)\})? ", line)
            assert found is not None
            labels = (re.sub(r"_\d+_\d+_", "_0_0_", label) for label in re.findall(r'(\w+)="', found[2] or ""))
            kind = types.get(found[1]) or types[f"{found[1]}_total"]
            lines.append(f"{found[1]} {kind} {','.join(sorted(labels))}")
    return lines


if __name__ == "__main__":
    sys.exit(main())

"""Apache Kafka's `kafka-transactions.sh`: what it shows and does on our broker is what it shows and does on Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer

from tests.differential.batches import MARCH
from tests.differential.hanging_transaction import hang
from tests.interop.conftest import need_java
from tests.interop.retried_requests import end_of
from tests.interop.transactions.clients.servers import Topic, created, server
from tests.oracle import tools

pytestmark = [pytest.mark.oracle, pytest.mark.interop]

TIMEOUT_S = 60.0
OPEN_S = 600
"""For so long a transaction may be open: the tool starts slowly on a busy machine, and runs often."""
Row = dict[str, str]


@pytest.fixture(scope="module", params=[pytest.param("barnabas"), pytest.param("kafka", marks=pytest.mark.long)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker where a transaction can hang: it takes records of transactions that no coordinator knows."""
    need_java()
    settings = {"transaction.partition.verification.enable": "false", "log.retention.ms": "-1"}
    with server(request.param, settings) as made:
        yield made


@pytest.fixture
def topic(bootstrap: str) -> Topic:
    return created(bootstrap)


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex[:8]


def run(bootstrap: str, *arguments: str) -> list[Row]:
    """The table that the tool prints."""
    text = tools.run("transactions", ["--bootstrap-server", bootstrap, *arguments])
    lines = [line.rstrip().split("\t") if "\t" in line else line.split() for line in text.splitlines() if line.strip()]
    assert lines, text
    header, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(header, row, strict=False)) for row in rows]


def transactional(bootstrap: str, name: str, timeout_ms: int = OPEN_S * 1000) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    producer = Producer({**settings, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def begun(producer: Producer, topic: Topic) -> None:
    producer.begin_transaction()
    producer.produce(topic.name, b"value", partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def test_transactions_are_listed_and_described(bootstrap: str, topic: Topic, mark: str) -> None:
    states = {"Empty": "idle", "CompleteCommit": "committed", "CompleteAbort": "aborted", "Ongoing": "open"}
    producers = {state: transactional(bootstrap, f"{mark}-{name}") for state, name in states.items()}
    for state in ("CompleteCommit", "CompleteAbort", "Ongoing"):
        begun(producers[state], topic)
    producers["CompleteCommit"].commit_transaction(TIMEOUT_S)
    producers["CompleteAbort"].abort_transaction(TIMEOUT_S)
    topic.wait_until_ends_at(5)
    rows = {row["TransactionalId"]: row for row in run(bootstrap, "list") if row["TransactionalId"].startswith(mark)}
    assert {row["TransactionState"]: row["TransactionalId"] for row in rows.values()} == {
        state: f"{mark}-{name}" for state, name in states.items()
    }
    assert {row["Coordinator"] for row in rows.values()} == {"0"}
    assert len({row["ProducerId"] for row in rows.values()}) == 4
    # An id that has had no transaction counts as one whose transaction began in 1970.
    long_open = run(bootstrap, "list", "--duration-filter", "3600000")
    assert [each for each in long_open if each in rows.values()] == [rows[f"{mark}-idle"]]

    now_ms = time.time() * 1000
    (row,) = run(bootstrap, "describe", "--transactional-id", f"{mark}-open")
    started_ms, duration_ms = int(row.pop("CurrentTransactionStartTimeMs")), int(row.pop("TransactionDurationMs"))
    assert 0 <= now_ms - started_ms < OPEN_S * 1000 and 0 <= duration_ms < OPEN_S * 1000
    assert row == {
        "CoordinatorId": "0",
        "TransactionalId": f"{mark}-open",
        "ProducerId": rows[f"{mark}-open"]["ProducerId"],
        "ProducerEpoch": "0",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": str(OPEN_S * 1000),
        "TopicPartitions": f"{topic.name}-0",
    }
    (row,) = run(bootstrap, "describe", "--transactional-id", f"{mark}-committed")
    assert row["TransactionState"] == "CompleteCommit"
    assert 0 <= now_ms - int(row["CurrentTransactionStartTimeMs"]) < OPEN_S * 1000, (
        "it keeps the time of its last transaction"
    )
    assert row.get("TopicPartitions", "") == ""
    with pytest.raises(tools.ToolError, match="the ID could not be found"):
        run(bootstrap, "describe", "--transactional-id", f"{mark}-unknown")
    producers["Ongoing"].commit_transaction(TIMEOUT_S)


def test_a_hanging_transaction_is_found_and_aborted(bootstrap: str, topic: Topic, mark: str) -> None:
    """Its records came past the coordinator, 15 minutes ago and more."""
    younger = transactional(bootstrap, f"{mark}-open")
    begun(younger, topic)
    producer_id = hang(bootstrap, topic.name)
    at = ["--topic", topic.name, "--partition", "0"]
    rows = run(bootstrap, "describe-producers", *at)
    opened = {row["CurrentTransactionStartOffset"]: row for row in rows}
    assert sorted(opened) == ["0", "1"]
    assert opened["1"] == {
        "ProducerId": str(producer_id),
        "ProducerEpoch": "0",
        "LatestCoordinatorEpoch": "-1",
        "LastSequence": "0",
        "LastTimestamp": str(MARCH),
        "CurrentTransactionStartOffset": "1",
    }
    (row,) = hanging(bootstrap, topic, ["--broker-id", "0"])
    assert int(row.pop("Duration(min)")) > 15
    assert row == {
        "Topic": topic.name,
        "Partition": "0",
        "ProducerId": str(producer_id),
        "ProducerEpoch": "0",
        "CoordinatorEpoch": "-1",
        "StartOffset": "1",
        "LastTimestamp": str(MARCH),
    }
    tools.run("transactions", ["--bootstrap-server", bootstrap, "abort", *at, "--start-offset", "1"])
    assert hanging(bootstrap, topic, ["--topic", topic.name]) == []
    (row,) = [row for row in run(bootstrap, "describe-producers", *at) if row["ProducerId"] == str(producer_id)]
    assert (row["CurrentTransactionStartOffset"], row["LatestCoordinatorEpoch"]) == ("None", "0")
    assert end_of(bootstrap, topic.name) == 3
    younger.commit_transaction(TIMEOUT_S)
    topic.wait_until_ends_at(4)
    with pytest.raises(tools.ToolError, match="Could not find any open transactions starting at offset 1"):
        tools.run("transactions", ["--bootstrap-server", bootstrap, "abort", *at, "--start-offset", "1"])


def hanging(bootstrap: str, topic: Topic, where: Sequence[str]) -> list[Row]:
    return [row for row in run(bootstrap, "find-hanging", *where) if row["Topic"] == topic.name]

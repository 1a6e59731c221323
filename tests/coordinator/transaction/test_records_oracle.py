"""Records of transactions whose end raises the epoch, as Apache Kafka 3.9.1 reads them: it may be their next leader."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from coordinator.transaction.records import transaction_record
from coordinator.transaction.transaction import Transaction, TransactionState
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH
from tests.oracle import java

ONGOING = Transaction(1000, 3, 60_000, TransactionState.ONGOING, frozenset({("orders", 0)}), 123, 456, 1000)
ENDED = replace(ONGOING, state=TransactionState.PREPARE_COMMIT, producer_epoch=4, client_version=EPOCH_BUMPS)
STORED = (
    replace(ONGOING, state=TransactionState.EMPTY, partitions=frozenset(), start_timestamp_ms=-1),
    replace(ONGOING, client_version=ONE_EPOCH),
    ENDED,
    replace(ENDED, producer_epoch=32767, next_producer_id=1001),
    replace(ENDED, producer_epoch=32767, next_producer_id=1001).completed(789),
)
_FIELD = re.compile(r"(producerId|producerEpoch|txnTimeoutMs|state|txnStartTimestamp|txnLastUpdateTimestamp)=(-?\w+)")


@pytest.mark.oracle
def test_apache_kafka_3_9_reads_them() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    values = [transaction_record("t", each, 2).value for each in STORED]
    assert all(value is not None and value[:2] == b"\0\1" for value in values)
    command = java.command("", [])
    command[-1:] = [str(java.HERE / "ReadTransactions.java")]
    lines = "".join(f"{value.hex()}\n" for value in values if value is not None)
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120)
    found = [dict(_FIELD.findall(line)) for line in run.stdout.splitlines()]
    assert found == [
        {
            "producerId": str(each.producer_id),
            "producerEpoch": str(each.producer_epoch),
            "txnTimeoutMs": str(each.timeout_ms),
            "state": each.state.value,
            "txnStartTimestamp": str(each.start_timestamp_ms),
            "txnLastUpdateTimestamp": str(each.update_timestamp_ms),
        }
        for each in STORED
    ]

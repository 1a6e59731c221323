"""The stored form: Kafka's bytes, both ways, and what is passed over."""

from __future__ import annotations

import pytest

from coordinator.runtime.contract import BatchPosition, CoordinatorRecord, Effect
from coordinator.transaction.events import TransactionRecordSkipped
from coordinator.transaction.records import (
    TransactionKey,
    UnknownTransactionKey,
    read_key,
    read_transaction,
    transaction_record,
    transaction_tombstone,
)
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import Transaction, TransactionState
from protocol.primitives import DecodeError
from protocol.stored.transaction_log import TransactionLogValue

OPEN = Transaction(7, 3, 60_000, TransactionState.ONGOING, frozenset({("b", 1), ("a", 2), ("a", 0)}), 100, 200)


def stored_value(code: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=code,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=200,
        transaction_start_timestamp_ms=100,
    )


@pytest.mark.parametrize("state", [state for state in TransactionState if state.code < TransactionState.DEAD.code])
def test_a_record_is_read_as_it_was_written(state: TransactionState) -> None:
    partitions = frozenset() if state is TransactionState.EMPTY else OPEN.partitions
    transaction = Transaction(7, 3, 60_000, state, partitions, 100, 200)
    record = transaction_record("t", transaction)
    assert read_key(record.key) == TransactionKey("t")
    assert record.value is not None
    assert read_transaction(record.value) == transaction


def test_the_bytes_are_those_of_value_version_0() -> None:
    record = transaction_record("t", OPEN)
    assert record.key.hex() == "00000001" + b"t".hex()
    assert record.value is not None
    assert record.value.hex() == (
        "0000" "0000000000000007" "0003" "0000ea60" "01"
        "00000002" "000161" "00000002" "00000000" "00000002" "000162" "00000001" "00000001"
        "00000000000000c8" "0000000000000064"
    )  # fmt: skip
    empty = transaction_record("t", Transaction(7, 3, 1, TransactionState.EMPTY, frozenset(), -1, 200))
    assert empty.value is not None and empty.value[17:21].hex() == "ffffffff", "an empty one has no list"


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_a_value_are_read(version: int) -> None:
    value = stored_value(4)
    expected = Transaction(7, 3, 60_000, TransactionState.COMPLETE_COMMIT, frozenset(), 100, 200)
    assert read_transaction(value.encode_stored(version)) == expected


@pytest.mark.parametrize("code", [-1, 6, 7, 8])
def test_a_state_that_no_record_may_have(code: int) -> None:
    value = stored_value(code).encode_stored(0)
    with pytest.raises(DecodeError, match=f"transaction state {code}"):
        read_transaction(value)


def test_keys_of_another_version_are_told_apart() -> None:
    assert read_key(b"\x00\x05rest") == UnknownTransactionKey(5)


def test_records_that_are_not_understood_are_passed_over_and_reported() -> None:
    good = transaction_record("t", OPEN)
    shard = TransactionShard(4, 0, TransactionSettings())
    for offset, record in enumerate(
        (
            good,
            CoordinatorRecord(good.key, b"\x00\x63"),
            CoordinatorRecord(b"\x00\x05", b""),
            CoordinatorRecord(b"", None),
        )
    ):
        shard.replay(record, BatchPosition(offset), 0)
    effects: list[Effect] = shard.on_loaded(0)
    skipped = [effect for effect in effects if isinstance(effect, TransactionRecordSkipped)]
    assert [(effect.partition, effect.offset) for effect in skipped] == [(4, 1), (4, 2), (4, 3)]
    assert shard.durable_state() == {"t": OPEN}


def test_a_tombstone_takes_what_was_there_and_nothing_else() -> None:
    shard = TransactionShard(4, 0, TransactionSettings())
    for record in (transaction_tombstone("u"), transaction_record("t", OPEN), transaction_tombstone("t")):
        shard.replay(record, BatchPosition(0), 0)
    shard.on_loaded(0)
    assert shard.durable_state() == {} and shard.open_ids() == []

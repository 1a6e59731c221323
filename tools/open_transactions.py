"""Transactions as commands and the page tell them: their state, the producers of partitions, and those that hang.

Pure: steps for a shell.

Source: KIP-664; Kafka TransactionsCommand.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from client.admin import transactions as transaction_steps
from client.admin.brokers import checked
from client.admin.steps import Steps
from runtime.texts import time_text
from tools.group_lag import Key

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


def transaction_document(found: transaction_steps.CoordinatedTransaction) -> dict[str, Any]:
    """Return what a coordinator says of a transactional id."""
    each = found.transaction
    return {
        "transactional_id": each.transactional_id,
        "coordinator": found.coordinator,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.transaction_state,
        "timeout_ms": each.transaction_timeout_ms,
        "started": None if each.transaction_start_time_ms < 0 else time_text(each.transaction_start_time_ms),
        "started_ms": None if each.transaction_start_time_ms < 0 else each.transaction_start_time_ms,
        "partitions": sorted(f"{row.topic}-{index}" for row in each.topics for index in row.partitions),
    }


def producer_rows(keys: Collection[Key]) -> Steps[list[dict[str, Any]]]:
    """Return a row for each producer that these partitions, which have leaders, know. Raises KafkaError."""
    found = checked((yield from transaction_steps.producers(keys)))
    return [
        {
            "topic": topic,
            "partition": partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_written": time_text(producer.last_timestamp) if producer.last_timestamp >= 0 else None,
            "last_written_ms": producer.last_timestamp if producer.last_timestamp >= 0 else None,
            "coordinator_epoch": producer.coordinator_epoch,
            "open_since_offset": producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
        }
        for (topic, partition), producers in sorted(found.items())
        for producer in producers
    ]


def hanging(keys: Collection[Key], latest_ms: int) -> Steps[list[dict[str, Any]]]:
    """Return the rows of producers whose transaction is open in one of these partitions, has written nothing since
    `latest_ms`, and is known to no coordinator. Raises KafkaError."""
    opened = [
        row
        for row in (yield from producer_rows(keys))
        if row["open_since_offset"] is not None and (row["last_written_ms"] or 0) <= latest_ms
    ]
    known = yield from _known_partitions({int(row["producer_id"]) for row in opened})
    rows = [row for row in opened if key_of(row) not in known.get(row["producer_id"], ())]
    # One that has just ended was open when the partition was asked, and no more when the coordinator was.
    again = (yield from producer_rows([key_of(row) for row in rows])) if rows else []
    still = {(*key_of(row), row["open_since_offset"]) for row in again}
    return [row for row in rows if (*key_of(row), row["open_since_offset"]) in still]


def key_of(row: dict[str, Any]) -> Key:
    return row["topic"], row["partition"]


def _known_partitions(producer_ids: set[int]) -> Steps[dict[int, set[Key]]]:
    """Return the partitions that coordinators have in the open transactions of these producers. Raises KafkaError."""
    if not producer_ids:
        return {}
    listed = yield from transaction_steps.list_all(producer_ids=sorted(producer_ids))
    ids = [each.transactional_id for found in listed.values() for each in found]
    known: dict[int, set[Key]] = {}
    for each, _ in checked((yield from transaction_steps.describe(ids))).values():
        if each.transaction_state in OPEN_STATES:
            keys = ((row.topic, index) for row in each.topics for index in row.partitions)
            known.setdefault(each.producer_id, set()).update(keys)
    return known

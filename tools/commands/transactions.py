"""`barnabas transactions`: which are open, since when, and how to end one that hangs.

Source: kafka-transactions.sh; KIP-664.
"""

from __future__ import annotations

from typing import Any

import click

from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import Failure
from tools.output import Output
from tools.parsing import time_text


@click.group("transactions", help="Transactions of producers.")
def command() -> None:
    pass


@command.command("list")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="only in this state: Ongoing, CompleteCommit ..."
)
@cluster_command
def list_transactions(cluster: Cluster, output: Output, *, states: tuple[str, ...]) -> None:
    """List the transactional ids of all coordinators."""
    found = cluster.other_admin.list_transactions(state_filters=list(states) or None)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": coordinator,
            "producer_id": each.producer_id,
            "state": each.state.value,
        }
        for coordinator, listed in found.items()
        for each in listed
    ]
    output.table(sorted(rows, key=lambda row: str(row["transactional_id"])),
                 ("transactional_id", "coordinator", "producer_id", "state"))  # fmt: skip


@command.command("describe")
@click.argument("transactional_ids", nargs=-1, required=True)
@cluster_command
def describe_transactions(cluster: Cluster, output: Output, *, transactional_ids: tuple[str, ...]) -> None:
    """Show producer, state, timeout, start and partitions of transactions."""
    rows = [
        {
            "transactional_id": transactional_id,
            "coordinator": each.coordinator_id,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "state": each.state.value,
            "timeout_ms": each.transaction_timeout_ms,
            "started": None if each.transaction_start_time_ms < 0 else time_text(each.transaction_start_time_ms),
            "partitions": sorted(f"{topic}-{index}" for topic, index in each.topic_partitions),
        }
        for transactional_id, each in cluster.other_admin.describe_transactions(transactional_ids).items()
    ]
    output.table(rows, ("transactional_id", "coordinator", "producer_id", "producer_epoch", "state", "timeout_ms",
                        "started", "partitions"))  # fmt: skip


@command.command("producers")
@click.argument("topic")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="only of these")
@cluster_command
def list_producers(cluster: Cluster, output: Output, *, topic: str, partitions: str | None) -> None:
    """List the producers that the partitions of TOPIC know, with the start of an open transaction."""
    output.table(
        _producer_rows(cluster, topic, partitions),
        ("topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_written", "open_since_offset"),
    )


@command.command("abort")
@click.argument("topic")
@click.option("--partition", type=click.IntRange(0), required=True, help="the partition whose transaction hangs")
@click.option("--start-offset", type=click.IntRange(0), required=True, help="where it starts, as `producers` shows it")
@click.option("--execute", is_flag=True, help="abort; without it the transaction is only shown")
@cluster_command
def abort_transaction(
    cluster: Cluster, output: Output, *, topic: str, partition: int, start_offset: int, execute: bool
) -> None:
    """Abort the transaction that starts at an offset of a partition of TOPIC and that no coordinator ends. A dry run, unless
    --execute is given."""
    from kafka.admin import AbortTransactionSpec  # noqa: PLC0415
    from kafka.structs import TopicPartition  # noqa: PLC0415

    rows = [row for row in _producer_rows(cluster, topic, str(partition)) if row["open_since_offset"] == start_offset]
    if not rows:
        raise Failure(
            f"no transaction of {topic}-{partition} starts at offset {start_offset}; "
            f"`barnabas transactions producers {topic}` shows those that are open"
        )
    if execute:
        cluster.other_admin.abort_transaction(
            AbortTransactionSpec(
                topic_partition=TopicPartition(topic, partition),
                producer_id=rows[0]["producer_id"],
                producer_epoch=rows[0]["producer_epoch"],
                coordinator_epoch=rows[0]["coordinator_epoch"],
            )
        )
    output.table(rows, ("topic", "partition", "producer_id", "producer_epoch", "open_since_offset"))
    if not execute:
        Output.note("nothing was aborted: --execute aborts this transaction")


def _producer_rows(cluster: Cluster, topic: str, partitions: str | None) -> list[dict[str, Any]]:
    from kafka.structs import TopicPartition  # noqa: PLC0415

    asked = [TopicPartition(*key) for key in partition_keys(cluster, topic, partitions, needs_leader=True)]
    return [
        {
            "topic": topic,
            "partition": partition.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_written": time_text(producer.last_timestamp) if producer.last_timestamp >= 0 else None,
            "coordinator_epoch": producer.coordinator_epoch,
            "open_since_offset": _offset_or_none(producer.current_transaction_start_offset),
        }
        for partition, state in sorted(cluster.other_admin.describe_producers(asked).items())
        for producer in state.active_producers
    ]


def _offset_or_none(offset: int | None) -> int | None:
    return None if offset is None or offset < 0 else offset

"""`barnabas transactions`: which are open, since when, and how to end one that hangs.

Source: kafka-transactions.sh; KIP-664.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from client.admin import transactions as transaction_steps
from protocol.errors import KafkaError
from protocol.messages.describe_producers import ProducerState
from runtime.command_line import parsing
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import Cluster, cluster_command
from tools.commands.topics import partition_keys
from tools.failures import told
from tools.names_given import one_name, some_names
from tools.open_transactions import hanging, key_of, producer_rows, transaction_document
from tools.placement import described, partition_rows

_PRODUCER_COLUMNS = ("topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_written",
                     "open_since_offset")  # fmt: skip


command = Commands("transactions", help="Transactions of producers.")


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="show only transactions in this state: Ongoing, CompleteCommit ...",
)
@click.option(
    "--duration-filter", type=click.IntRange(0), metavar="MS", help="show only transactions that are open for longer"
)
@cluster_command
def list_transactions(
    cluster: Cluster, output: Output, *, states: tuple[str, ...], duration_filter: int | None
) -> None:
    """List the transactional ids of all coordinators."""
    found = cluster.run(
        transaction_steps.list_all(
            states=[state.strip() for text in states for state in text.split(",")],
            duration_ms=transaction_steps.NO_DURATION if duration_filter is None else duration_filter,
        )
    )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": coordinator,
            "producer_id": each.producer_id,
            "state": each.transaction_state,
        }
        for coordinator, listed in found.items()
        for each in listed
    ]
    output.table(sorted(rows, key=lambda row: str(row["transactional_id"])),
                 ("transactional_id", "coordinator", "producer_id", "state"))  # fmt: skip


@command.command("describe")
@some_names("transactional_id")
@cluster_command
def describe_transactions(cluster: Cluster, output: Output, *, transactional_ids: tuple[str, ...]) -> None:
    """Show producer, state, timeout, start and partitions of transactions."""
    rows = [transaction_document(each) for each in _described(cluster, transactional_ids).values()]
    output.table(rows, ("transactional_id", "coordinator", "producer_id", "producer_epoch", "state", "timeout_ms",
                        "started", "partitions"))  # fmt: skip


@command.command("producers")
@one_name("topic")
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="show only producers of these partitions")
@cluster_command
def list_producers(cluster: Cluster, output: Output, *, topic: str, partitions: str | None) -> None:
    """List the producers that the partitions of TOPIC know, with the start of an open transaction."""
    output.table(
        _producer_rows(cluster, topic, partitions),
        _PRODUCER_COLUMNS,
    )


@command.command("abort")
@one_name("topic")
@click.option(
    "--partition",
    type=click.IntRange(0, parsing.INT32_MAX),
    required=True,
    help="the partition whose transaction hangs",
)
@click.option("--start-offset", type=parsing.OFFSET, help="where it starts, as `producers` shows it")
@click.option("--producer-id", type=parsing.OFFSET, help="the producer of the transaction, as `producers` shows it")
@execute_option("abort the transaction")
@cluster_command
def abort_transaction(
    cluster: Cluster,
    output: Output,
    *,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    execute: bool,
) -> None:
    """Abort the transaction that starts at an offset of a partition of TOPIC and that no coordinator ends. A dry run, unless
    --execute is given."""
    if start_offset is None and producer_id is None:
        raise click.UsageError("name the transaction: --start-offset or --producer-id")
    rows = [
        row
        for row in _producer_rows(cluster, topic, str(partition))
        if row["open_since_offset"] is not None
        and start_offset in (None, row["open_since_offset"])
        and producer_id in (None, row["producer_id"])
    ]
    if not rows:
        named = f"starts at offset {start_offset}" if start_offset is not None else f"is of producer {producer_id}"
        raise Failure(
            f"no transaction of {topic}-{partition} {named}; "
            f"`barnabas transactions producers {topic}` shows those that are open"
        )
    if execute:
        hanging = ProducerState(
            producer_id=rows[0]["producer_id"],
            producer_epoch=rows[0]["producer_epoch"],
            coordinator_epoch=rows[0]["coordinator_epoch"],
        )
        cluster.run(transaction_steps.abort((topic, partition), hanging))
    output.table(rows, ("topic", "partition", "producer_id", "producer_epoch", "open_since_offset"))
    if not execute:
        Output.note("nothing was aborted: --execute aborts this transaction")


@command.command("find-hanging")
@one_name("topic", is_required=False)
@click.option("--partitions", "--partition", metavar="0,2,5-7", help="search only in these partitions of one topic")
@click.option("--broker", "--broker-id", "broker", type=click.IntRange(0), metavar="ID",
              help="search only in partitions that this broker leads")  # fmt: skip
@click.option("--max-transaction-timeout", "minutes", type=click.IntRange(0), default=15, metavar="MINUTES",
              help="show only transactions that are quiet for longer: transaction.max.timeout.ms of brokers [15]")  # fmt: skip
@cluster_command
def find_hanging(
    cluster: Cluster, output: Output, *, topic: str | None, partitions: str | None, broker: int | None, minutes: int
) -> None:
    """Find transactions that are open in a partition of TOPIC, or of any topic, and that no coordinator knows, so that nobody
    ends them; `abort` does. This needs the right to describe all transactional ids."""
    if topic is None and partitions is not None:
        raise click.UsageError("--partitions goes with a TOPIC")
    latest_ms = cluster.clock.wall_ms() - minutes * 60_000
    topics = cluster.run(described((topic,) if topic is not None else ()))
    chosen = parsing.partitions(partitions)
    wanted = [row for each in topics for row in partition_rows(each) if not chosen or row["partition"] in chosen]
    led = [key_of(row) for row in wanted if row["leader"] is not None and broker in (None, row["leader"])]
    leaderless = [f"{row['topic']}-{row['partition']}" for row in wanted if row["leader"] is None]
    if leaderless:
        Output.note(f"without leader, and not looked at: {', '.join(leaderless)}")
    output.table(cluster.run(hanging(led, latest_ms)), _PRODUCER_COLUMNS)


def _described(
    cluster: Cluster, transactional_ids: Collection[str]
) -> dict[str, transaction_steps.CoordinatedTransaction]:
    """Return the state of transactions. Raises Failure for one that cannot be described."""
    found = {}
    for transactional_id, each in cluster.run(transaction_steps.describe(transactional_ids)).items():
        if isinstance(each, KafkaError):
            raise Failure(told(each))
        found[transactional_id] = each
    return found


def _producer_rows(cluster: Cluster, topic: str, partitions: str | None) -> list[dict[str, Any]]:
    return cluster.run(producer_rows(partition_keys(cluster, topic, partitions, needs_leader=True)))

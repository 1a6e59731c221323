"""Transactions, as the page shows them: which are open, since when, which hang, and the end of one that does.

Rules: all transactional ids are listed; of those that are open, up to DESCRIBED of them, start and partitions are told, too. To
find those that hang, all partitions are asked for their producers: that is done when somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field

from client.admin import transactions as transaction_steps
from protocol.errors import KafkaError
from protocol.messages.describe_producers import ProducerState
from tools.open_transactions import OPEN_STATES, hanging, key_of, producer_rows, transaction_document
from tools.placement import described, partition_rows
from web.errors import HttpProblem
from web.page.routing import RequestBody, page_router
from web.requests import WRITING, Cluster, Parts

if TYPE_CHECKING:
    from client.admin.transactions import CoordinatedTransaction
    from web.cluster.user_cluster import UserCluster

router = page_router("Transactions")
DESCRIBED: Final = 1_000
DEFAULT_QUIET_MINUTES: Final = 15
"""transaction.max.timeout.ms of brokers, by default."""


class Transaction(BaseModel):
    """What is null is told only of an open transaction."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str
    is_open: bool
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None
    partitions: list[str] | None = None


class TransactionList(BaseModel):
    transactions: list[Transaction]


class Producer(BaseModel):
    """A producer of a partition; `open_since_offset` is where its open transaction begins."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_written_ms: int | None
    open_since_offset: int | None


class ProducerList(BaseModel):
    """`leaderless` partitions were not looked at."""

    producers: list[Producer]
    leaderless: list[str]


class Abortion(RequestBody):
    """The transaction of a producer that begins at an offset of a partition, as the list of those that hang tells it."""

    topic: str
    partition: int = Field(ge=0)
    producer_id: int
    start_offset: int


@router.get("/transactions")
async def list_transactions(cluster: Cluster) -> TransactionList:
    """List the transactional ids of all coordinators."""
    listed = await cluster.run(transaction_steps.list_all())
    rows = {
        str(each.transactional_id): Transaction(
            transactional_id=each.transactional_id,
            coordinator=coordinator,
            producer_id=each.producer_id,
            state=each.transaction_state,
            is_open=each.transaction_state in OPEN_STATES,
        )
        for coordinator, some in listed.items()
        for each in some
    }
    opened = [name for name, row in sorted(rows.items()) if row.is_open][:DESCRIBED]
    for name, each in (await cluster.run(transaction_steps.describe(opened)) if opened else {}).items():
        if not isinstance(
            each, KafkaError
        ):  # what has ended meanwhile, or may not be described, stays as it was listed
            rows[name] = transaction_of(each)
    return TransactionList(transactions=[row for _, row in sorted(rows.items())])


@router.get("/transactions/hanging")
async def find_hanging(cluster: Cluster, parts: Parts, quiet_minutes: int = DEFAULT_QUIET_MINUTES) -> ProducerList:
    """Find transactions that are open in a partition, have written nothing for so long, and that no coordinator knows."""
    topics = await cluster.run(described())
    rows = [row for topic in topics for row in partition_rows(topic)]
    led = [key_of(row) for row in rows if row["leader"] is not None]
    latest_ms = parts.surroundings.clock.wall_ms() - quiet_minutes * 60_000
    found = await cluster.run(hanging(led, latest_ms)) if led else []
    return ProducerList(
        producers=[Producer(**row) for row in found],
        leaderless=[f"{row['topic']}-{row['partition']}" for row in rows if row["leader"] is None],
    )


@router.post("/transactions/abort", dependencies=[WRITING])
async def abort(cluster: Cluster, body: Abortion) -> Producer:
    """End a transaction that no coordinator ends."""
    row = await _open_row(cluster, body)
    producer = ProducerState(
        producer_id=row["producer_id"], producer_epoch=row["producer_epoch"], coordinator_epoch=row["coordinator_epoch"]
    )
    await cluster.run(transaction_steps.abort((body.topic, body.partition), producer))
    return Producer(**row)


def transaction_of(found: CoordinatedTransaction) -> Transaction:
    """Return an open transaction as its coordinator describes it."""
    document = transaction_document(found)
    return Transaction(**document, is_open=document["state"] in OPEN_STATES)


async def _open_row(cluster: UserCluster, body: Abortion) -> dict[str, Any]:
    """Raises HttpProblem where it is over, KafkaError."""
    for row in await cluster.run(producer_rows([(body.topic, body.partition)])):
        if (row["producer_id"], row["open_since_offset"]) == (body.producer_id, body.start_offset):
            return row
    raise HttpProblem(
        404,
        f"no transaction of producer {body.producer_id} in {body.topic}-{body.partition} is open since offset "
        f"{body.start_offset}: it has ended",
        code="NO_SUCH_TRANSACTION",
    )

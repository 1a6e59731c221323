"""What clients did in each transaction, and what they know of its fate. The checkers judge by it.

    OPEN -> COMMIT_SENT -> COMMITTED        acknowledged
                        -> REFUSED          every attempt was answered with an error that says it is not committed
         -> ENDED                           aborted, abandoned or fenced: nobody has ever asked for a commit

COMMIT_SENT is in doubt: the transaction may become visible, and then as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from protocol.topic_partition import TopicPartition

OffsetKey = tuple[str, TopicPartition]  # group, and the partition whose offset it commits


class Fate(Enum):
    OPEN = "open"
    COMMIT_SENT = "commit sent"
    COMMITTED = "committed"
    REFUSED = "commit refused"
    ENDED = "never committed"


@dataclass(eq=False, slots=True)
class Transaction:
    """One transaction of one instance of a transactional id. `values` are those that were sent, by partition."""

    name: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    began_s: float = 0.0
    fate: Fate = Fate.OPEN
    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offsets: dict[OffsetKey, int] = field(default_factory=dict)

    @property
    def may_be_visible(self) -> bool:
        return self.fate in (Fate.COMMIT_SENT, Fate.COMMITTED)

    @property
    def must_be_visible(self) -> bool:
        return self.fate is Fate.COMMITTED

    def all_values(self) -> Iterable[tuple[TopicPartition, str]]:
        return ((key, value) for key, values in self.values.items() for value in values)

    def __str__(self) -> str:
        return f"{self.name} ({self.fate.value})"


class Ledger:
    """All transactions of a history, in the order in which they began."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.places: dict[str, tuple[Transaction, TopicPartition]] = {}
        """Of each value: the transaction that sent it, and where to."""

    def begin(
        self, name: str, transactional_id: str, producer_id: int, producer_epoch: int, now_s: float = 0.0
    ) -> Transaction:
        transaction = Transaction(name, transactional_id, producer_id, producer_epoch, now_s)
        self.transactions.append(transaction)
        return transaction

    def sending(self, transaction: Transaction, key: TopicPartition, values: Iterable[str]) -> None:
        sent = transaction.values.setdefault(key, [])
        for value in values:
            sent.append(value)
            self.places[value] = (transaction, key)

    def sending_offset(self, transaction: Transaction, key: OffsetKey, offset: int) -> None:
        transaction.offsets[key] = offset

    def commit_sent(self, transaction: Transaction) -> None:
        transaction.fate = Fate.COMMIT_SENT

    def committed(self, transaction: Transaction) -> None:
        transaction.fate = Fate.COMMITTED

    def refused(self, transaction: Transaction) -> None:
        """Every attempt to commit was answered, with an error after which nothing is committed."""
        transaction.fate = Fate.REFUSED

    def ended(self, transaction: Transaction) -> None:
        """The client has turned away from it. One whose commit was sent stays in doubt."""
        if transaction.fate is Fate.OPEN:
            transaction.fate = Fate.ENDED

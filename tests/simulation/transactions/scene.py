"""What the clients of transactions share beside the world: the ledger, the checkers, and what may be repeated."""

from __future__ import annotations

from collections import deque

from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.simulation.transactions.checkers.aborted_reads import AbortedReadChecker
from tests.simulation.transactions.checkers.fencing import FencingChecker
from tests.simulation.transactions.checkers.offsets import OffsetChecker
from tests.simulation.transactions.checkers.polls import PollChecker
from tests.simulation.transactions.checkers.stable_offset import StableOffsetChecker
from tests.simulation.transactions.ledger import Ledger
from tests.simulation.transactions.plan import has_levels
from tests.simulation.world import World

KEPT_REQUESTS = 20


class Scene:
    """`in_cluster`: partitions and coordinators may move."""

    def __init__(self, world: World, *, in_cluster: bool) -> None:
        self.world = world
        self.in_cluster = in_cluster
        self.sent_markers: deque[tuple[int, WriteTxnMarkersRequest]] = deque(maxlen=KEPT_REQUESTS)
        """The last requests between brokers with markers of transactions that raise the epoch, and to whom they went."""
        self.ends_raise_epoch = has_levels(world.loop.seed)
        self.ledger = ledger = Ledger()
        self.aborted_reads = AbortedReadChecker(world.report, ledger)
        self.fencing = FencingChecker(world.report)
        self.offsets = OffsetChecker(world.report, ledger, lambda: self.is_excused)
        self.polls = PollChecker(world.report)
        self.stable_offsets = StableOffsetChecker(world.report)
        self.retriable = world.not_now | {
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        }

    @property
    def is_excused(self) -> bool:
        """Whether committed records may be gone, as every replica of them lost power."""
        return self.world.coverage["promises that fell"] > 0

    @property
    def clocks_differ(self) -> bool:
        """Whether a broker's wall clock was set, so that it may time a transaction out at any moment."""
        return self.world.coverage["clocks set"] > 0

    def on_retry(self, what: str, code: ErrorCode | None) -> None:
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.world.count("concurrent transactions answered")
        elif what == "EndTxn":
            self.world.count("ends of transactions repeated")

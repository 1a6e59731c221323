"""One instance of a transactional producer: it begins, writes, sends offsets, commits or aborts, as real clients do.

    retriable errors   the request is repeated, to whoever is the coordinator or the leader by then
    abortable errors   `MustAbort`: the transaction has to be aborted; when a batch is in doubt the epoch is bumped behind the
                       abort, so that a late copy of the batch cannot come into the next transaction (KIP-360)
    fatal errors       `Fenced`: another instance has taken over, or the transaction timed out; this one is done

Rules: every partition is added before its first batch; a commit waits for all batches; EndTxn is sent only for a transaction
to which something was added. Source: Kafka TransactionManager; librdkafka rdkafka_txnmgr.c.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import ProduceResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from protocol.records.record import Record, encode_batch
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.line import R, Unavailable
from tests.simulation.transactions.clients.requests import (
    add_partitions_request,
    produce_request,
    txn_offset_commit_request,
)
from tests.simulation.transactions.ledger import OffsetKey, Transaction

if TYPE_CHECKING:
    from tests.simulation.line import Line
    from tests.simulation.transactions.scene import Scene

FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
ABORTABLE = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})
# A producer that has lost its sequence in a partition: a batch before was given up, or is not known any more.
LOST_SEQUENCE = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# After these an attempt to commit has changed nothing.
NOT_COMMITTED = FENCED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTION_ABORTABLE,
}
IN_FLIGHT_MAX = 3


class Fenced(Exception):
    """This instance may do nothing any more."""


class MustAbort(Exception):
    """The transaction cannot be committed."""


class Stopped(Exception):
    """The world does not want the client to go on: a zombie at the end of its days."""


@dataclass(slots=True)
class _Batch:
    content: bytes
    is_pending: bool = True


@dataclass(slots=True)
class _Sequences:
    """The next sequence of each partition under the present epoch."""

    next: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, key: TopicPartition, count: int) -> int:
        sequence = self.next.get(key, 0)
        self.next[key] = sequence + count
        return sequence


class Session:
    """`patience_s`: how long a request is repeated before its transaction is given up. `is_stopped` ends a zombie."""

    def __init__(self, scene: Scene, line: Line, transactional_id: str, *, timeout_ms: int, patience_s: float) -> None:
        rng = scene.world.random
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer = (-1, -1)
        self.transaction: Transaction | None = None
        self.is_stopped: Callable[[], bool] = lambda: False
        self._scene = scene
        self._world = scene.world
        self._line = line
        self._patience_s = patience_s
        self._init_version = rng.choice((3, 4, 5))
        self._versions = {"add": rng.randint(0, 3), "offsets": rng.randint(0, 4), "end": rng.randint(0, 4)}
        self._produce_version = rng.choice((3, 7, 8, 9, 10, 11))
        self._offset_commit_version = rng.randint(0, 4)
        self.instance = scene.fencing.begins(transactional_id)
        self._transactions_count = 0
        self._counter = 0
        self._sequences = _Sequences()
        self._added: set[TopicPartition] = set()
        self._added_groups: set[str] = set()
        self._has_added = False  # something was added, and the coordinator has said so
        self._must_bump = False
        self._commit_in_doubt = False
        self._attempts_count = 0  # of the last request
        self._is_current = True  # who has answered last
        self._opened_s: float | None = None  # when the coordinator may have begun the transaction

    def __str__(self) -> str:
        return f"{self.transactional_id}.{self.instance}"

    # --- requests ---

    async def _call(
        self, request: Request, version: int, response_type: type[R], code_of: Callable[[R], int], *, may_give_up: bool
    ) -> ErrorCode:
        """The first answer that is not retriable. Raises MustAbort when patience is at its end, Stopped."""
        world, what = self._world, type(request).__name__.removesuffix("Request")
        deadline_s = world.loop.time() + self._patience_s
        self._attempts_count = 0
        while True:
            self._attempts_count += 1
            if self.is_stopped():
                raise Stopped
            newest = self._scene.fencing.newest(self.transactional_id)
            try:
                response = await self._line.call(request, version, response_type)
            except Unavailable:
                code = None
            else:
                self._is_current = self._line.is_up_to_date
                code = ErrorCode(code_of(response))
                world.loop.note(f"{self} {what} {code.name}")
                if (
                    code is ErrorCode.NONE
                    and self._is_current
                    and what not in ("InitProducerId", "Produce", "TxnOffsetCommit")
                ):
                    self._scene.fencing.accepted(self.transactional_id, self.instance, what, newest)
            if code is not None and code not in self._scene.retriable:
                return code
            self._scene.on_retry(what, code)
            if isinstance(request, EndTxnRequest) and request.committed and code not in NOT_COMMITTED:
                self._commit_in_doubt = True
            if may_give_up and world.loop.time() > deadline_s:
                world.count("transactions given up")
                raise MustAbort(f"{what} was repeated for {self._patience_s} s")
            await self._line.pause()

    def _fail(self, what: str, code: ErrorCode) -> None:
        """Raises Fenced or MustAbort; reports what neither explains."""
        if code in FENCED:
            self._fenced(what)
            raise Fenced(what)
        if code in LOST_SEQUENCE:
            self._must_bump = True
            self._world.count("sequences lost")
            raise MustAbort(f"{what}: {code.name}")
        if code in ABORTABLE and (self._may_have_timed_out() or self._is_superseded() or not self._is_current):
            raise MustAbort(f"{what}: {code.name}")
        if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING and not self._is_current:
            raise Fenced(what)
        self._world.report(f"{self}: {what} was answered {code!r}, in {self.transaction}")
        raise Fenced(what)

    def _fenced(self, what: str) -> None:
        self._world.count("producers fenced" if self._is_superseded() else "producers fenced by a timeout")
        self._check_fencing(what)

    def _check_fencing(self, what: str) -> None:
        # A coordinator forgets with its leadership whose epoch it bumped, and ends what is open before it bumps one.
        is_repeated = what == "InitProducerId" and self.producer[0] >= 0 and self._attempts_count > 1
        # One that does not know of its successor yet knows older epochs, and so does a partition's leader that asks it.
        is_excused = is_repeated or not self._is_current or self._may_have_timed_out()
        self._scene.fencing.fenced(self.transactional_id, self.instance, what, is_excused=is_excused)

    def _may_have_timed_out(self) -> bool:
        if self._opened_s is None:
            return False
        return self._scene.clocks_differ or (self._world.loop.time() - self._opened_s) * 1_000 >= self.timeout_ms

    def _is_superseded(self) -> bool:
        return self._scene.fencing.newest(self.transactional_id) > self.instance

    # --- the epoch ---

    async def initialize(self) -> None:
        """Get the first epoch, or the next one behind an abort. Raises Fenced, Stopped."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
        )
        found: list[InitProducerIdResponse] = []

        def code_of(response: InitProducerIdResponse) -> int:
            found.append(response)
            return response.error_code

        is_first = self.producer[0] < 0
        code = await self._call(request, self._init_version, InitProducerIdResponse, code_of, may_give_up=False)
        if code is not ErrorCode.NONE:
            self._fail("InitProducerId", code)
        before, self.producer = self.producer, (found[-1].producer_id, found[-1].producer_epoch)
        if not is_first and self.producer <= before:
            self._world.report(f"{self}: epoch {self.producer} after {before}")
        self._sequences = _Sequences()
        self._must_bump = False
        self._opened_s = None
        self._scene.fencing.initialized(self.transactional_id, self.instance, *self.producer)
        self._world.count("producers initialized" if is_first else "epochs bumped")

    # --- the transaction ---

    def begin(self) -> Transaction:
        self._transactions_count += 1
        name = f"{self}:{self._transactions_count}"
        self.transaction = self._scene.ledger.begin(
            name, self.transactional_id, *self.producer, self._world.loop.time()
        )
        self._added.clear()
        self._added_groups.clear()
        self._has_added = False
        self._commit_in_doubt = False
        return self.transaction

    async def add(self, keys: Sequence[TopicPartition]) -> None:
        """Make partitions a part of the transaction. Raises MustAbort, Fenced, Stopped."""
        new = [key for key in keys if key not in self._added]
        if not new:
            return

        def code_of(response: AddPartitionsToTxnResponse) -> int:
            codes = [row.partition_error_code for topic in response.results_by_topic_v3_and_below
                     for row in topic.results_by_partition]  # fmt: skip
            return next((code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)), max(codes))

        self._may_be_open()
        request = add_partitions_request(self.transactional_id, self.producer, new)
        code = await self._call(request, self._versions["add"], AddPartitionsToTxnResponse, code_of, may_give_up=True)
        if code is not ErrorCode.NONE:
            self._fail("AddPartitionsToTxn", code)
        self._added.update(new)
        self._has_added = True

    def _may_be_open(self) -> None:
        if self._opened_s is None:
            self._opened_s = self._world.loop.time()

    async def write(self, key: TopicPartition, groups_of_values: Sequence[Sequence[str]]) -> None:
        """Write batches to a partition that was added, some at a time. Raises MustAbort, Fenced, Stopped."""
        assert key in self._added and self.transaction is not None
        batches = [_Batch(self._encode(key, values)) for values in groups_of_values]
        while pending := [batch for batch in batches if batch.is_pending][:IN_FLIGHT_MAX]:
            results = await asyncio.gather(
                *(self._produce(key, batch.content) for batch in pending), return_exceptions=True
            )
            codes: list[ErrorCode | None] = []
            for result in results:
                if isinstance(result, BaseException):
                    self._must_bump = True
                    raise result
                codes.append(result)
            await self._take_over(key, pending, codes)

    async def _take_over(self, key: TopicPartition, pending: list[_Batch], codes: list[ErrorCode | None]) -> None:
        """`codes`: what each batch was answered; None when it has to be sent again. What comes behind such a one is out of
        order, and goes again with it."""
        failed: list[ErrorCode | None] = []
        for batch, code in zip(pending, codes, strict=True):
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                batch.is_pending = False
            else:
                failed.append(code)
        if not failed:
            return
        first = failed[0]
        if first is None:
            await self._line.pause()
            return
        self._must_bump = True
        if first in FENCED:  # by a marker of the partition: whether it is fatal is the coordinator's to say
            self._check_fencing(f"Produce to {key}")
            raise MustAbort(f"{key}: {first.name}")
        self._fail(f"Produce to {key}", first)

    async def _produce(self, key: TopicPartition, content: bytes) -> ErrorCode | None:
        if self.is_stopped():
            raise Stopped
        if self._scene.is_patience_over(self.transaction, self._patience_s):
            self._world.count("transactions given up")
            raise MustAbort(f"Produce to {key} was repeated for {self._patience_s} s")
        request = produce_request(self.transactional_id, key, content)
        try:
            response = await self._line.call(request, self._produce_version, ProduceResponse)
        except Unavailable:
            return None
        row, is_current = response.responses[0].partition_responses[0], self._line.is_up_to_date
        code = ErrorCode(row.error_code)
        self._world.loop.note(f"{self} Produce {key} {code.name} at {row.base_offset}")
        if code in self._scene.retriable:
            self._scene.on_retry("Produce", code)
            return None
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_current:
            return None  # of a former leader
        self._is_current = is_current
        return code

    def _encode(self, key: TopicPartition, values: Sequence[str]) -> bytes:
        assert self.transaction is not None
        named = []
        for value in values:
            named.append(f"{self}#{self._counter} {value}")
            self._counter += 1
        self._scene.ledger.sending(self.transaction, key, named)
        now_ms = self._world.wall_ms()
        return encode_batch(
            [Record(0, now_ms, None, value.encode()) for value in named],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self._sequences.take(key, len(named)),
            is_transactional=True,
        )

    async def send_offset(self, key: OffsetKey, offset: int) -> None:
        """Commit a group's offset with the transaction. Raises MustAbort, Fenced, Stopped."""
        assert self.transaction is not None
        group, partition = key
        if group not in self._added_groups:
            self._may_be_open()
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                group_id=group,
            )
            code = await self._call(
                add, self._versions["offsets"], AddOffsetsToTxnResponse, _error_code, may_give_up=True
            )
            if code is not ErrorCode.NONE:
                self._fail("AddOffsetsToTxn", code)
            self._added_groups.add(group)
            self._has_added = True
        self._scene.ledger.sending_offset(self.transaction, key, offset)
        request = txn_offset_commit_request(self.transactional_id, self.producer, group, partition, offset)

        def code_of(response: TxnOffsetCommitResponse) -> int:
            return response.topics[0].partitions[0].error_code

        try:
            code = await self._call(
                request, self._offset_commit_version, TxnOffsetCommitResponse, code_of, may_give_up=True
            )
        except MustAbort:
            self._must_bump = True
            raise
        if code is not ErrorCode.NONE:
            self._fail("TxnOffsetCommit", code)
        self._world.count("offsets sent to transactions")

    async def commit(self) -> None:
        """Raises MustAbort, Fenced, Stopped; the transaction is in doubt when its commit was sent and not answered."""
        transaction, ledger = self.transaction, self._scene.ledger
        assert transaction is not None
        if self._has_added:
            ledger.commit_sent(transaction)
            try:
                await self._end(is_commit=True)
            except (Fenced, MustAbort):
                if not self._commit_in_doubt:
                    ledger.refused(transaction)
                else:
                    self._world.count("commits in doubt")
                raise
            self._world.count("transactions committed")
            self._closed()
        ledger.committed(transaction)

    async def abort(self) -> None:
        """Raises Fenced, Stopped."""
        if self.transaction is not None:
            self._scene.ledger.ended(self.transaction)
        if self._has_added:
            try:
                await self._end(is_commit=False)
            except MustAbort as error:
                raise Fenced(str(error)) from error  # an abort that is refused is fatal
            self._world.count("transactions aborted")
            self._closed()
        self.transaction = None
        if self._must_bump:
            await self.initialize()

    async def _end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=is_commit,
        )
        code = await self._call(request, self._versions["end"], EndTxnResponse, _error_code, may_give_up=False)
        if code is not ErrorCode.NONE:
            self._fail("EndTxn", code)

    def _closed(self) -> None:
        self.transaction = None
        self._has_added = False
        self._opened_s = None


def _error_code(response: Response) -> int:
    code: int = getattr(response, "error_code")  # noqa: B009
    return code

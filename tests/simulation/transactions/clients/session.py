"""One instance of a transactional producer, as `client.event_loop.producer` has it, with everything checked that it is
answered.

`MustAbort`   the transaction has to be aborted
`Fenced`      another instance has taken over, or the transaction timed out; this one is done
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from client.committing import GroupMembership, OffsetAndMetadata
from client.error_codes import error_codes
from client.errors import AbortableError, FatalError
from client.event_loop.producer import AsyncProducer, Delivered
from client.producing.core import ProducerLimits
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import text_of
from tests.simulation.clients.observed import ObservedCluster
from tests.simulation.transactions.ledger import OffsetKey, Transaction

if TYPE_CHECKING:
    from tests.simulation.transactions.scene import Scene

T = TypeVar("T")
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
ABORTABLE = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})
# A producer that has lost its sequence in a partition: a batch before was given up, or is not known any more.
LOST_SEQUENCE = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# After these an attempt to commit has changed nothing.
NOT_COMMITTED = FENCED | ABORTABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
_CHECKED = (
    InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest,
    ProduceRequest,
)  # fmt: skip
# What may begin a transaction at its coordinator; where each end raises the epoch, brokers add what they are sent.
_OPENING = AddPartitionsToTxnRequest | AddOffsetsToTxnRequest | ProduceRequest | TxnOffsetCommitRequest
_LOOK_S = 0.5


class Fenced(Exception):
    """This instance may do nothing any more."""


class MustAbort(Exception):
    """The transaction cannot be committed."""


class Stopped(Exception):
    """The world does not want the client to go on: a zombie at the end of its days."""


class Session:
    """`patience_s`: how long a request is repeated before its transaction is given up. `is_stopped` ends a zombie."""

    def __init__(self, scene: Scene, name: str, transactional_id: str, *, timeout_ms: int, patience_s: float) -> None:
        world, rng = scene.world, scene.world.random
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.transaction: Transaction | None = None
        self.is_stopped: Callable[[], bool] = lambda: False
        self.instance = scene.fencing.begins(transactional_id)
        self._scene = scene
        self._world = world
        self._patience_s = patience_s
        self._cluster = ObservedCluster(world, name, self)
        self._cluster.versions = {
            InitProducerIdRequest: rng.choice((3, 4, 5)),
            AddPartitionsToTxnRequest: rng.randint(0, 3),
            AddOffsetsToTxnRequest: rng.randint(0, 4),
            TxnOffsetCommitRequest: rng.randint(0, 4),
            EndTxnRequest: rng.randint(0, 4),
            ProduceRequest: rng.choice((3, 7, 8, 9, 10, 11)),
        }
        self._producer = AsyncProducer(
            self._cluster,
            world.wall_ms,
            rng,
            transactional_id=transactional_id,
            limits=ProducerLimits(
                batch_size_bytes=rng.choice((100, 1_000, 4_000)),
                delivery_timeout_ms=round(patience_s * 1_000),
                transaction_timeout_ms=timeout_ms,
            ),
        )
        self._deliveries: list[asyncio.Future[Delivered]] = []
        self._transactions_count = 0
        self._counter = 0
        self._commit_in_doubt = False
        self._has_added = False  # something was added to the transaction, and the coordinator has said so
        self._attempts_count = 0  # to get the present epoch
        self._identity = (-1, -1)
        self._opened_s: float | None = None  # when the coordinator may have begun the transaction

    def __str__(self) -> str:
        return f"{self.transactional_id}.{self.instance}"

    async def crash(self) -> None:
        await self._producer.close()
        await self._cluster.close()

    # --- what goes over the wire ---

    def sending(self, broker_id: int, request: Request) -> object:
        if isinstance(request, _OPENING) and self._opened_s is None:
            self._opened_s = self._world.loop.time()
        self._attempts_count += isinstance(request, InitProducerIdRequest)
        return self._scene.fencing.newest(self.transactional_id)

    def unanswered(self, request: Request) -> None:
        if isinstance(request, EndTxnRequest):
            self._scene.on_retry("EndTxn", None)
            self._commit_in_doubt |= request.committed

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        if not isinstance(request, _CHECKED):
            return
        what, is_current = request.api_name, self._is_current(broker_id, request)
        codes = [ErrorCode(code) for code in error_codes(response)]
        self._world.loop.note(f"{self} {what} {' '.join(code.name for code in codes) or 'NONE'}")
        if not codes:
            self._on_success(request, response, then, is_current=is_current)
        for code in codes:
            if code in self._scene.retriable:
                self._scene.on_retry(what, code)
            if isinstance(request, EndTxnRequest) and request.committed and code not in NOT_COMMITTED:
                self._commit_in_doubt = True
            # An abort may find nothing: what has begun the transaction was not answered.
            is_perhaps_nothing = isinstance(request, EndTxnRequest) and not request.committed and not self._has_added
            if not (is_perhaps_nothing and code is ErrorCode.INVALID_TXN_STATE):
                self._check(what, code, is_current=is_current)

    def _on_success(self, request: Request, response: Response, newest: Any, *, is_current: bool) -> None:
        if isinstance(response, InitProducerIdResponse):
            is_first, identity = self._identity[0] < 0, (response.producer_id, response.producer_epoch)
            if not is_first and identity <= self._identity:
                self._world.report(f"{self}: epoch {identity} after {self._identity}")
            self._identity, self._opened_s, self._attempts_count = identity, None, 0
            self._scene.fencing.initialized(self.transactional_id, self.instance, *identity)
            self._world.count("producers initialized" if is_first else "epochs bumped")
        elif isinstance(request, AddPartitionsToTxnRequest | AddOffsetsToTxnRequest | EndTxnRequest) and is_current:
            self._scene.fencing.accepted(self.transactional_id, self.instance, request.api_name, newest)
        self._has_added |= isinstance(request, _OPENING)
        if isinstance(response, EndTxnResponse):
            self._opened_s = None
            if response.producer_id >= 0:
                self._on_raised((response.producer_id, response.producer_epoch))

    def _on_raised(self, identity: tuple[int, int]) -> None:
        """The end of a transaction has raised the epoch, or given a new id behind the last one."""
        if identity <= self._identity:
            self._world.report(f"{self}: epoch {identity} after {self._identity}, at the end of a transaction")
        self._identity = identity
        self._scene.fencing.raised(self.transactional_id, self.instance, *identity)
        self._world.count("epochs raised by the end of a transaction")

    def _check(self, what: str, code: ErrorCode, *, is_current: bool) -> None:
        """Report what nothing explains."""
        if code in self._scene.retriable or code is ErrorCode.OPERATION_NOT_ATTEMPTED:
            return
        if code in FENCED:
            # A coordinator forgets with its leadership whose epoch it bumped, and ends what is open before it bumps one.
            is_repeated = what == "InitProducerId" and self._identity[0] >= 0 and self._attempts_count > 1
            # One that does not know of its successor yet knows older epochs, and so does a partition's leader that asks it.
            is_excused = is_repeated or not is_current or self._may_have_timed_out()
            self._scene.fencing.fenced(self.transactional_id, self.instance, what, is_excused=is_excused)
        elif code in LOST_SEQUENCE and what == "Produce":
            self._world.count("sequences lost")
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            pass
        elif is_current and not (code in ABORTABLE and (self._may_have_timed_out() or self._is_followed())):
            self._world.report(f"{self}: {what} was answered {code!r}, in {self.transaction}")

    def _is_current(self, broker_id: int, request: Request) -> bool:
        """Whether the broker leads or coordinates what it was asked for, as the cluster sees it."""
        world = self._world
        match request:
            case ProduceRequest():
                rows = [(topic.name, row.index) for topic in request.topic_data for row in topic.partition_data]
                return all(world.is_leader(broker_id, key) for key in rows)
            case TxnOffsetCommitRequest():
                return world.is_group_coordinator(broker_id, request.group_id)
            case _:
                return world.is_transaction_coordinator(broker_id, self.transactional_id)

    def _may_have_timed_out(self) -> bool:
        if self._opened_s is None:
            return False
        return self._scene.clocks_differ or (self._world.loop.time() - self._opened_s) * 1_000 >= self.timeout_ms

    def _is_followed(self) -> bool:
        return self._scene.fencing.is_followed(self.transactional_id, self.instance)

    def _is_superseded(self) -> bool:
        return self._scene.fencing.newest(self.transactional_id) > self.instance

    # --- what the application does ---

    async def _call(self, steps: Coroutine[Any, Any, T], *, may_give_up: bool = True) -> T:
        """Raises MustAbort also when patience is at its end, Fenced, Stopped."""
        loop = self._world.loop
        task, deadline_s = loop.create_task(steps), loop.time() + self._patience_s
        try:
            while not (await asyncio.wait((task,), timeout=_LOOK_S))[0]:
                if self.is_stopped():
                    raise Stopped
                if may_give_up and loop.time() > deadline_s:
                    self._world.count("transactions given up")
                    raise MustAbort(f"{steps.__name__} took more than {self._patience_s} s")
            return task.result()
        except AbortableError as error:
            self._world.count("transactions given up", error.code is ErrorCode.REQUEST_TIMED_OUT)
            raise MustAbort(str(error)) from error
        except FatalError as error:
            self._world.count("producers fenced" if self._is_superseded() else "producers fenced by a timeout")
            raise Fenced(str(error)) from error
        finally:
            task.cancel()

    async def initialize(self) -> None:
        """Get the first epoch. Raises Fenced, Stopped."""
        await self._call(self._producer.initialize(), may_give_up=False)

    def begin(self) -> Transaction:
        self._producer.begin()
        self._transactions_count += 1
        name = f"{self}:{self._transactions_count}"
        self.transaction = self._scene.ledger.begin(
            name, self.transactional_id, *self._identity, self._world.loop.time()
        )
        self._deliveries.clear()
        self._commit_in_doubt = self._has_added = False
        return self.transaction

    def add(self, keys: Sequence[TopicPartition]) -> None:
        """Make partitions a part of the transaction, with records or without."""
        for key in keys:
            self._producer.core.transaction.add(key)

    async def write(self, key: TopicPartition, groups_of_values: Sequence[Sequence[str]]) -> None:
        """Write to a partition, and now and then wait until it is there. Raises MustAbort, Fenced, Stopped."""
        assert self.transaction is not None
        for values in groups_of_values:
            named = [f"{self}#{self._counter + index} {value}" for index, value in enumerate(values)]
            self._counter += len(values)
            self._scene.ledger.sending(self.transaction, key, named)
            for value in named:
                send = self._producer.send(key[0], value.encode(), partition=key[1])
                self._deliveries.append(await self._call(send))
        if self._world.random.random() < 0.5:
            await self._call(self._producer.flush())

    async def send_offset(self, key: OffsetKey, offset: int) -> None:
        """Commit a group's offset with the transaction. Raises MustAbort, Fenced, Stopped."""
        assert self.transaction is not None
        group, partition = key
        self._scene.ledger.sending_offset(self.transaction, key, offset)
        offsets = {partition: OffsetAndMetadata(offset, metadata=text_of(offset))}
        await self._call(self._producer.send_offsets(GroupMembership(group), offsets))
        self._world.count("offsets sent to transactions")

    async def commit(self) -> None:
        """Raises MustAbort, Fenced, Stopped; the transaction is in doubt when its commit was sent and not answered."""
        transaction, ledger = self.transaction, self._scene.ledger
        assert transaction is not None
        ledger.commit_sent(transaction)
        try:
            await self._call(self._producer.commit(), may_give_up=False)
        except (Fenced, MustAbort):
            if not self._commit_in_doubt:
                ledger.refused(transaction)
            else:
                self._world.count("commits in doubt")
            raise
        if any(each.done() and each.exception() is not None for each in self._deliveries):
            self._world.report(f"{self}: {transaction} was committed without some of its records")
        self._world.count("transactions committed")
        ledger.committed(transaction)
        self.transaction = None

    async def abort(self) -> None:
        """Raises Fenced, Stopped."""
        if self.transaction is not None:
            self._scene.ledger.ended(self.transaction)
        await self._call(self._producer.abort(), may_give_up=False)
        self._world.count("transactions aborted")
        self.transaction = None

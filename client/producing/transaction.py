"""Producer id and epoch, the states of a transaction, and the requests to its coordinator. Pure.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING -> READY
                                                     |             |
                                              ABORTABLE_ERROR <----+
                                                     |
                                                 ABORTING -> READY, or INITIALIZING where the epoch is to be raised

FATAL_ERROR ends a producer. One without a transactional id knows UNINITIALIZED, INITIALIZING, READY and FATAL_ERROR, and raises
its epoch by itself.

Rules: one request to a coordinator at a time. A partition is added before its first batch. EndTxn follows when every batch has
its answer, and is left out when nothing was added. The epoch is raised behind an abort whose batches or offsets may still be on
their way, so that a late copy cannot come into the next transaction (KIP-360). A commit whose answer is missing stays a commit.
In a cluster where each end of a transaction raises the epoch (`version` is EPOCH_BUMPS), brokers add partitions and offsets
themselves: the only requests are those that carry them, and EndTxn, whose response has the next identity.
Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Kafka TransactionManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from client.admin.steps import KeyKind
from client.committing import GroupMembership, OffsetAndMetadata
from client.error_codes import error_codes
from client.errors import AbortableError, FatalError
from client.producing.batch import NO_IDENTITY, IdAndEpoch
from client.producing.verdicts import ProducerVerdict, verdict_on
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import END_SINCE, EPOCH_BUMPS, OFFSET_COMMIT_SINCE, ONE_EPOCH

MAX_EPOCH: Final = 32767 - 1
"""The last epoch that a producer may raise: the broker keeps one more for itself."""


CONCURRENT_PAUSE_MS: Final = 20
"""Before partitions are added again, by themselves or with what is sent to them, while the markers of the transaction before
are being written: it does not take long."""


class State(Enum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "to be aborted"
    FATAL_ERROR = "failed"


@dataclass(eq=False, slots=True)
class PendingOffsets:
    """Offsets that are to be committed with the transaction."""

    group: GroupMembership
    offsets: dict[TopicPartition, OffsetAndMetadata]


@dataclass(eq=False, frozen=True, slots=True)
class CoordinatorRequest:
    """A request to a coordinator, by the kind of its key and the key; None where any broker answers."""

    request: Request
    coordinator: tuple[KeyKind, str] | None
    max_version: int | None = None
    """The newest version that says what is meant; None for the one that is commonly used."""


class _Begun(Enum):
    """Whether the coordinator has begun the transaction."""

    NO = 0
    PERHAPS = 1
    YES = 2


class ProducerTransaction:
    def __init__(self, transactional_id: str | None, timeout_ms: int, backoff_ms: Callable[[int], int]) -> None:
        """`backoff_ms` returns the pause before an attempt, by how many there were."""
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.identity = NO_IDENTITY
        self.error: KafkaError | None = None
        self.must_bump = False
        self.version = ONE_EPOCH
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._added: set[TopicPartition] = set()
        self._new: dict[TopicPartition, None] = {}
        self._added_groups: set[str] = set()
        self._offsets: deque[PendingOffsets] = deque()
        self._begun = _Begun.NO
        self._asking: CoordinatorRequest | None = None
        self._attempts_count = 0
        self.not_before_ms = 0

    # --- what the application wants ---

    def initialize(self) -> None:
        """Ask for an id and an epoch. Raises FatalError."""
        self._check(State.UNINITIALIZED, State.INITIALIZING, State.READY)
        if self.state is State.UNINITIALIZED:
            self.state = State.INITIALIZING

    def begin(self, level: int = ONE_EPOCH) -> None:
        """`level` is the cluster's of transaction.version. Raises FatalError."""
        self._check(State.READY)
        self.state = State.IN_TRANSACTION
        self.version = EPOCH_BUMPS if level >= EPOCH_BUMPS else ONE_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        """Whether the end of the transaction raises the epoch, and brokers add to it what is sent in it."""
        return self.version == EPOCH_BUMPS

    def check_open(self) -> None:
        """Raises AbortableError or FatalError where nothing can be added to the transaction."""
        self._check(State.IN_TRANSACTION)

    def check_sound(self) -> None:
        """Raises AbortableError or FatalError."""
        if self.error is not None and self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            self._check()

    def add(self, key: TopicPartition) -> None:
        if self.bumps_epoch:
            self._added.add(key)
        elif key not in self._added:
            self._new[key] = None

    def add_offsets(self, group: GroupMembership, offsets: dict[TopicPartition, OffsetAndMetadata]) -> object:
        """Return what `has_offsets` knows these offsets by. Raises AbortableError or FatalError."""
        self.check_open()
        pending = PendingOffsets(group, dict(offsets))
        if offsets:
            self._offsets.append(pending)
        return pending

    def has_offsets(self, pending: object) -> bool:
        """Whether offsets wait for their answer."""
        return pending in self._offsets

    def commit(self) -> None:
        """Raises AbortableError or FatalError."""
        self._check(State.IN_TRANSACTION, State.COMMITTING)
        self.state = State.COMMITTING

    def abort(self) -> None:
        """Raises FatalError; RuntimeError where a commit has begun, which may have succeeded."""
        if self.state is State.COMMITTING:
            raise RuntimeError("a commit has begun: it is to be waited for")
        self._check(State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING)
        self.state = State.ABORTING
        self._new.clear()
        self._offsets.clear()

    # --- what the queues of batches ask and tell ---

    def may_send(self, key: TopicPartition) -> bool:
        """Whether batches of a partition may go."""
        if self.identity == NO_IDENTITY or self.state in (State.INITIALIZING, State.FATAL_ERROR):
            return False
        if self.transactional_id is None:
            return self.state is State.READY
        return key in self._added and self.state in (State.IN_TRANSACTION, State.COMMITTING)

    def batches_sent(self) -> None:
        """Batches go to their leaders, which may begin the transaction."""
        if self._begun is _Begun.NO:
            self._begun = _Begun.PERHAPS

    def batch_failed(self, verdict: ProducerVerdict, error: KafkaError) -> None:
        """A batch has failed. `verdict` is FATAL or another."""
        if verdict is ProducerVerdict.FATAL:
            self._fail(error)
        elif self.transactional_id is not None:
            self._must_abort(error)

    def raise_epoch(self) -> IdAndEpoch | None:
        """Return the next identity of a producer without a transactional id; None where it has to be asked for."""
        assert self.transactional_id is None
        producer_id, epoch = self.identity
        if epoch >= MAX_EPOCH:
            self.identity, self.state = NO_IDENTITY, State.INITIALIZING
            return None
        self.identity = IdAndEpoch(producer_id, epoch + 1)
        return self.identity

    # --- the requests ---

    def next(self, now_ms: int, *, has_batches: bool) -> CoordinatorRequest | None:
        """Return the next request, which is to be answered by `answered` or `unanswered`. `has_batches`: whether any batch has
        no answer yet."""
        if self._asking is not None or now_ms < self.not_before_ms:
            return None
        request = self._next_request(has_batches=has_batches)
        if request is None:
            return None
        coordinator = None if self.transactional_id is None else (KeyKind.TRANSACTION, self.transactional_id)
        if isinstance(request, TxnOffsetCommitRequest):
            coordinator = (KeyKind.GROUP, request.group_id)
        max_version = None
        if self.bumps_epoch and isinstance(request, TxnOffsetCommitRequest | EndTxnRequest):
            max_version = OFFSET_COMMIT_SINCE if isinstance(request, TxnOffsetCommitRequest) else END_SINCE
        if self._begun is _Begun.NO and not isinstance(request, InitProducerIdRequest):
            self._begun = _Begun.PERHAPS
        self._asking = CoordinatorRequest(request, coordinator, max_version)
        return self._asking

    def answered(self, ask: CoordinatorRequest, response: Response, now_ms: int) -> bool:
        """Take a response; return whether the coordinator is to be looked for before the request is repeated."""
        assert ask is self._asking
        self._asking = None
        kind, verdict, worst = type(ask.request), ProducerVerdict.DONE, ErrorCode.NONE
        for number in error_codes(response):
            code = ErrorCode.of(number)
            found = verdict_on(kind, code)
            if _SEVERITY.index(found) > _SEVERITY.index(verdict):
                verdict, worst = found, code
        if isinstance(response, TxnOffsetCommitResponse):
            self._on_offsets(response)
        if verdict in (ProducerVerdict.REPEAT, ProducerVerdict.FIND):
            self._pause(now_ms)
            if worst is ErrorCode.CONCURRENT_TRANSACTIONS and kind in (
                AddPartitionsToTxnRequest,
                TxnOffsetCommitRequest,
            ):
                self.not_before_ms = min(self.not_before_ms, now_ms + CONCURRENT_PAUSE_MS)
            return verdict is ProducerVerdict.FIND
        self._attempts_count = 0
        if verdict is ProducerVerdict.DONE:
            self._on_done(ask.request, response)
            return False
        error = KafkaError(worst, f"{kind.api_name}: {worst.message}")
        is_ending = isinstance(ask.request, EndTxnRequest) and self.state is State.ABORTING
        if is_ending and worst is ErrorCode.INVALID_TXN_STATE and self._begun is _Begun.PERHAPS:
            self._on_done(ask.request, response)  # there was nothing to abort
        elif verdict is ProducerVerdict.FATAL or is_ending or self.state is State.INITIALIZING:
            self._fail(error)
        else:
            self.must_bump |= verdict is ProducerVerdict.ABORT_AND_BUMP
            self._must_abort(error)
        return False

    def unanswered(self, ask: CoordinatorRequest, now_ms: int) -> None:
        """Nobody has answered; whether the request was carried out is unknown."""
        assert ask is self._asking
        self._asking = None
        self.must_bump |= isinstance(ask.request, TxnOffsetCommitRequest)
        self._pause(now_ms)

    def refused(self, ask: CoordinatorRequest, error: KafkaError) -> None:
        """The request cannot be made: the broker does not know it, or the coordinator must not be looked for."""
        assert ask is self._asking
        self._asking = None
        if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._must_abort(error)
        else:
            self._fail(error)

    def _next_request(self, *, has_batches: bool) -> Request | None:
        if self.state is State.INITIALIZING:
            return InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
            )
        if self.state in (State.IN_TRANSACTION, State.COMMITTING):
            if self._new:
                return self._add_partitions()
            if self._offsets:
                return self._send_offsets(self._offsets[0])
        if self.state in (State.COMMITTING, State.ABORTING) and not has_batches:
            if self._begun is _Begun.NO:
                self._end()
                return self._next_request(has_batches=False)
            return EndTxnRequest(
                transactional_id=self._id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                committed=self.state is State.COMMITTING,
            )
        return None

    def _add_partitions(self) -> Request:
        topics: dict[str, list[int]] = {}
        for topic, partition in self._new:
            topics.setdefault(topic, []).append(partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()
            ],
        )

    def _send_offsets(self, pending: PendingOffsets) -> Request:
        producer_id, epoch = self.identity
        group = pending.group
        if not self.bumps_epoch and group.group_id not in self._added_groups:
            return AddOffsetsToTxnRequest(
                transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, group_id=group.group_id
            )
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), (offset, leader_epoch, metadata) in pending.offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

    def _on_offsets(self, response: TxnOffsetCommitResponse) -> None:
        """What was accepted is not sent again."""
        if not self._offsets:
            return  # the transaction is being aborted
        pending = self._offsets[0]
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code == ErrorCode.NONE:
                    pending.offsets.pop((topic.name, row.partition_index), None)

    def _on_done(self, request: Request, response: Response) -> None:
        match response:
            case InitProducerIdResponse():
                self.identity = IdAndEpoch(response.producer_id, response.producer_epoch)
                self.state, self.must_bump = State.READY, False
            case AddPartitionsToTxnResponse():
                self._begun = _Begun.YES
                for topic in response.results_by_topic_v3_and_below:
                    for row in topic.results_by_partition:
                        self._new.pop((topic.name, row.partition_index), None)
                        self._added.add((topic.name, row.partition_index))
            case AddOffsetsToTxnResponse():
                assert isinstance(request, AddOffsetsToTxnRequest)
                self._begun = _Begun.YES
                self._added_groups.add(request.group_id)
            case TxnOffsetCommitResponse():
                if self._offsets:
                    self._offsets.popleft()
            case EndTxnResponse():
                if response.producer_id >= 0:
                    self.identity = IdAndEpoch(response.producer_id, response.producer_epoch)
                    self.must_bump = False
                self._end()

    def _end(self) -> None:
        """The transaction is over."""
        is_bumped = self.must_bump and self.state is State.ABORTING
        self.state, self.must_bump = State.INITIALIZING if is_bumped else State.READY, False
        self.error = None
        self._added.clear()
        self._added_groups.clear()
        self._begun = _Begun.NO

    # --- errors ---

    @property
    def _id(self) -> str:
        assert self.transactional_id is not None
        return self.transactional_id

    def _check(self, *states: State) -> None:
        if self.state in states:
            return
        if self.state is State.FATAL_ERROR:
            assert self.error is not None
            raise FatalError(self.error.code, self.error.message)
        if self.state is State.ABORTABLE_ERROR:
            assert self.error is not None
            raise AbortableError(self.error.code, self.error.message)
        raise RuntimeError(f"the producer is {self.state.value}")

    def _must_abort(self, error: KafkaError) -> None:
        if self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self.state, self.error = State.ABORTABLE_ERROR, error
            self._new.clear()
            self._offsets.clear()

    def _fail(self, error: KafkaError) -> None:
        self.state, self.error = State.FATAL_ERROR, self.error if self.state is State.FATAL_ERROR else error

    def _pause(self, now_ms: int) -> None:
        self.not_before_ms = now_ms + self._backoff_ms(self._attempts_count)
        self._attempts_count += 1


_SEVERITY: Final = (
    ProducerVerdict.DONE,
    ProducerVerdict.REPEAT,
    ProducerVerdict.FIND,
    ProducerVerdict.ABORT,
    ProducerVerdict.ABORT_AND_BUMP,
    ProducerVerdict.FATAL,
)

"""A transactional session against scripted brokers: which errors it repeats, which end its transaction, and which end it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.line import NOT_NOW, Unavailable
from tests.simulation.transactions.clients.session import Fenced, MustAbort, Session
from tests.simulation.transactions.ledger import Fate
from tests.simulation.transactions.scene import Scene

KEY: TopicPartition = ("t", 0)
OK = ErrorCode.NONE
LOST = None  # no answer comes


class Loop:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.notes: list[str] = []

    def time(self) -> float:
        return self.now_s

    def note(self, text: str) -> None:
        self.notes.append(text)


class World:
    """As much of `tests.simulation.world.World` as a session needs."""

    not_now = NOT_NOW

    def __init__(self) -> None:
        self.loop = Loop()
        self.random = Random(1)
        self.reports: list[str] = []
        self.coverage: Counter[str] = Counter()

    def report(self, what: str) -> None:
        self.reports.append(what)

    def count(self, what: str, by: int = 1) -> None:
        self.coverage[what] += by

    def wall_ms(self) -> int:
        return 0


class Line:
    """Answers each kind of request with the next code of its script, and with NONE behind its end."""

    name = "client"
    life = 1
    connections_count = 1
    is_up_to_date = True

    def __init__(self, world: World, **scripts: Iterable[ErrorCode | None]) -> None:
        self.sent: list[Request] = []
        self._world = world
        self._scripts = {name: list(codes) for name, codes in scripts.items()}
        self._epoch = -1

    async def call(self, request: Request, version: int, response_type: type[Any]) -> Any:
        self.sent.append(request)
        script = self._scripts.get(type(request).__name__.removesuffix("Request"), [])
        code = script.pop(0) if script else OK
        if code is LOST:
            raise Unavailable
        return self._response(request, code)

    def _response(self, request: Request, code: ErrorCode) -> Response:
        match request:
            case InitProducerIdRequest():
                self._epoch += code is OK
                return InitProducerIdResponse(
                    throttle_time_ms=0, error_code=code, producer_id=7, producer_epoch=self._epoch
                )
            case AddPartitionsToTxnRequest():
                row = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
                topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[row])
                return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=[topic])
            case ProduceRequest():
                produced = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
                return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[produced])])
            case _:
                assert isinstance(request, EndTxnRequest)
                return EndTxnResponse(throttle_time_ms=0, error_code=code)

    async def call_unanswered(self, request: Request, version: int) -> None:
        raise AssertionError("a transactional producer waits for answers")

    async def pause(self) -> None:
        self._world.loop.now_s += 1.0

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for request in self.sent)


def session_of(
    *, timeout_ms: int = 60_000, patience_s: float = 10.0, **scripts: Iterable[ErrorCode | None]
) -> tuple[Session, Line, World]:
    world = World()
    line = Line(world, **scripts)
    scene = Scene(world, in_cluster=False)  # type: ignore[arg-type]
    return Session(scene, line, "tx", timeout_ms=timeout_ms, patience_s=patience_s), line, world


async def write(session: Session) -> None:
    await session.initialize()
    session.begin()
    await session.add([KEY])
    await session.write(KEY, [["x"], ["x"]])


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def fate_of(session: Session) -> Fate:
    return session._scene.ledger.transactions[-1].fate


def test_what_is_retriable_is_repeated_until_it_works() -> None:
    again = (LOST, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
    session, line, world = session_of(
        InitProducerId=again,
        AddPartitionsToTxn=again,
        Produce=(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, LOST),
        EndTxn=again,
    )

    async def story() -> None:
        await write(session)
        await session.commit()

    run(story())
    assert fate_of(session) is Fate.COMMITTED
    assert not world.reports
    counts = {kind: line.count(kind) for kind in (InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)}
    assert set(counts.values()) == {4}
    batches = [
        request.topic_data[0].partition_data[0].records for request in line.sent if isinstance(request, ProduceRequest)
    ]
    assert len(set(map(bytes, filter(None, batches)))) == 2, "the same bytes go again"


def test_a_producer_that_is_fenced_without_a_reason_reports_it() -> None:
    session, _, world = session_of(EndTxn=(ErrorCode.PRODUCER_FENCED,))

    async def story() -> None:
        await write(session)
        with pytest.raises(Fenced):
            await session.commit()

    run(story())
    assert fate_of(session) is Fate.REFUSED
    assert "without a reason" in world.reports[0]


def test_a_timeout_is_a_reason_to_be_fenced() -> None:
    session, _, world = session_of(timeout_ms=2_000, EndTxn=(ErrorCode.INVALID_PRODUCER_EPOCH,))

    async def story() -> None:
        await write(session)
        world.loop.now_s += 2.0
        with pytest.raises(Fenced):
            await session.commit()

    run(story())
    assert not world.reports


def test_a_commit_that_was_not_answered_once_is_in_doubt_when_it_is_refused() -> None:
    session, _, world = session_of(timeout_ms=500, EndTxn=(LOST, ErrorCode.PRODUCER_FENCED))

    async def story() -> None:
        await write(session)
        with pytest.raises(Fenced):
            await session.commit()

    run(story())
    assert fate_of(session) is Fate.COMMIT_SENT
    assert not world.reports


@pytest.mark.parametrize("answer", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_lost_sequence_aborts_the_transaction_and_bumps_the_epoch(answer: ErrorCode) -> None:
    session, line, world = session_of(Produce=(answer, answer))

    async def story() -> None:
        with pytest.raises(MustAbort):
            await write(session)
        await session.abort()

    run(story())
    assert fate_of(session) is Fate.ENDED
    assert [type(request) for request in line.sent[-2:]] == [EndTxnRequest, InitProducerIdRequest]
    assert session.producer == (7, 1)
    assert not world.reports


def test_impatience_aborts_and_bumps_the_epoch_when_a_batch_is_in_doubt() -> None:
    session, line, world = session_of(patience_s=3.0, Produce=[LOST] * 100)

    async def story() -> None:
        with pytest.raises(MustAbort):
            await write(session)
        await session.abort()

    run(story())
    assert isinstance(line.sent[-1], InitProducerIdRequest)
    assert world.coverage["transactions given up"] >= 1


def test_an_abort_is_sent_only_for_what_was_added() -> None:
    session, line, _ = session_of(patience_s=3.0, AddPartitionsToTxn=[LOST] * 5)

    async def story() -> None:
        with pytest.raises(MustAbort):
            await write(session)
        await session.abort()
        assert line.count(EndTxnRequest) == 0
        session.begin()
        await session.add([KEY])
        await session.abort()

    run(story())
    assert line.count(EndTxnRequest) == 1
    assert line.count(InitProducerIdRequest) == 1


@pytest.mark.parametrize(
    "break_it",
    [
        lambda: session_of(AddPartitionsToTxn=(ErrorCode.INVALID_PRODUCER_ID_MAPPING,)),
        lambda: session_of(Produce=(ErrorCode.INVALID_TXN_STATE,)),
        lambda: session_of(Produce=(ErrorCode.UNKNOWN_SERVER_ERROR,)),
    ],
)
def test_an_error_that_nothing_explains_is_reported(break_it: Callable[[], tuple[Session, Line, World]]) -> None:
    session, _, world = break_it()

    async def story() -> None:
        with pytest.raises(Fenced):
            await write(session)

    run(story())
    assert "was answered" in world.reports[0]

"""A transactional session against scripted brokers: which answers it finds wrong, and what it takes its transactions for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
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
from tests.simulation.line import NOT_NOW
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.transactions.clients import session as sessions
from tests.simulation.transactions.clients.session import Fenced, MustAbort, Session
from tests.simulation.transactions.ledger import Fate
from tests.simulation.transactions.scene import Scene

KEY: TopicPartition = ("t", 0)
OK = ErrorCode.NONE
LOST = None  # no answer comes
Story = Callable[[Session], Awaitable[None]]


class World:
    """As much of `tests.simulation.world.World` as a session needs."""

    not_now = NOT_NOW

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.random = Random(1)
        self.reports: list[str] = []
        self.coverage: Counter[str] = Counter()

    def report(self, what: str) -> None:
        self.reports.append(what)

    def count(self, what: str, by: int = 1) -> None:
        self.coverage[what] += by

    def wall_ms(self) -> int:
        return 0

    def is_leader(self, *_: object) -> bool:
        return True

    is_group_coordinator = is_transaction_coordinator = is_leader


class Cluster:
    """Answers each kind of request with the next code of its script, and with NONE behind its end."""

    transaction_version = 0

    def __init__(self, observer: Any, scripts: dict[str, Iterable[ErrorCode | None]]) -> None:
        self.versions: dict[type[Request], int] = {}
        self.sent: list[type[Request]] = []
        self._observer = observer
        self._scripts = {name: list(codes) for name, codes in scripts.items()}
        self._epoch = -1

    def leader_of(self, key: TopicPartition) -> int:
        return 1

    async def send(
        self, broker_id: int, request: Request, response_type: type[Any], *, max_version: int | None = None
    ) -> Any:
        self.sent.append(type(request))
        then = self._observer.sending(broker_id, request)
        script = self._scripts.get(request.api_name, [])
        code = script.pop(0) if script else OK
        if code is LOST:
            self._observer.unanswered(request)
            raise ConnectionError
        response = self._response(request, code)
        self._observer.answered(broker_id, request, response, then)
        return response

    async def send_to_coordinator(
        self, kind: Any, key: str, request: Request, response_type: type[Any], *, max_version: int | None = None
    ) -> Any:
        return await self.send(1, request, response_type)

    def forget_topics(self, topics: object) -> None:
        """It knows none."""

    def forget_coordinator(self, *_: object) -> None:
        """It knows none."""

    async def close(self) -> None:
        """It has no connections."""

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


@pytest.fixture(name="play")
def playing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Session, Cluster, World]]:
    """Let a story happen to a session in virtual time."""

    def play(
        story: Story, *, timeout_ms: int = 60_000, patience_s: float = 10.0, **scripts: Iterable[ErrorCode | None]
    ) -> tuple[Session, Cluster, World]:
        made: list[Any] = []

        async def program(loop: SimLoop) -> None:
            world = World(loop)
            scene = Scene(world, in_cluster=False)  # type: ignore[arg-type]
            monkeypatch.setattr(sessions, "ObservedCluster", lambda _, __, observer: Cluster(observer, scripts))
            session = Session(scene, "tx", "tx", timeout_ms=timeout_ms, patience_s=patience_s)
            made.extend((session, session._cluster, world))
            await story(session)
            await session.crash()

        simulate(1, program)
        return made[0], made[1], made[2]

    return play


async def write(session: Session) -> None:
    await session.initialize()
    session.begin()
    await session.write(KEY, [["x"], ["x"]])
    await session._call(session._producer.flush())


async def commit(session: Session) -> None:
    await write(session)
    await session.commit()


async def fenced(session: Session) -> None:
    with pytest.raises(Fenced):
        await commit(session)


async def aborted(session: Session) -> None:
    with pytest.raises(MustAbort):
        await commit(session)
    await session.abort()


def fate_of(session: Session) -> Fate:
    return session._scene.ledger.transactions[-1].fate


Play = Callable[..., tuple[Session, Cluster, World]]


def test_what_is_retriable_is_repeated_until_it_works(play: Play) -> None:
    again = (LOST, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
    session, cluster, world = play(
        commit, InitProducerId=again, AddPartitionsToTxn=again, EndTxn=again,
        Produce=(ErrorCode.NOT_LEADER_OR_FOLLOWER, LOST),
    )  # fmt: skip
    assert fate_of(session) is Fate.COMMITTED and not world.reports
    kinds = (InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
    assert {cluster.sent.count(kind) for kind in kinds} == {4}


def test_a_producer_that_is_fenced_without_a_reason_reports_it(play: Play) -> None:
    session, _, world = play(fenced, EndTxn=(ErrorCode.PRODUCER_FENCED,))
    assert fate_of(session) is Fate.REFUSED
    assert "without a reason" in world.reports[0]


def test_a_timeout_is_a_reason_to_be_fenced_and_a_commit_that_was_not_answered_is_in_doubt(play: Play) -> None:
    session, _, world = play(fenced, timeout_ms=50, EndTxn=(LOST, ErrorCode.INVALID_PRODUCER_EPOCH))
    assert fate_of(session) is Fate.COMMIT_SENT and not world.reports


@pytest.mark.parametrize("answer", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_lost_sequence_aborts_the_transaction_and_raises_the_epoch(play: Play, answer: ErrorCode) -> None:
    session, cluster, world = play(aborted, Produce=(answer,))
    assert fate_of(session) is Fate.ENDED and not world.reports
    assert cluster.sent[-2:] == [EndTxnRequest, InitProducerIdRequest]


def test_impatience_aborts(play: Play) -> None:
    session, cluster, world = play(aborted, patience_s=3.0, Produce=[LOST] * 100)
    assert fate_of(session) is Fate.ENDED and not world.reports
    assert cluster.sent[-1] is InitProducerIdRequest and world.coverage["transactions given up"] >= 1


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("AddPartitionsToTxn", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("Produce", ErrorCode.INVALID_TXN_STATE),
        ("Produce", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_that_nothing_explains_is_reported(play: Play, what: str, code: ErrorCode) -> None:
    _, _, world = play(aborted, **{what: (code,)})
    assert "was answered" in world.reports[0]

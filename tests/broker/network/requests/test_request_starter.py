"""Which fast path learns from which request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from broker.network.dispatch import handles
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from security.access import NOTHING
from tests.broker.harness import Broker


class Learning:
    """A fast path that keeps what it was shown, and takes nothing."""

    route = None
    shown: ClassVar[list[tuple[str, type]]] = []

    def learn(self, route: Any, frame: Any, position: int, request: Any, context: Any, outcome: Any) -> None:
        self.shown.append((type(self).__name__, type(request)))


class OfProduce(Learning):
    pass


class OfFetch(Learning):
    pass


@handles(ProduceRequest, NOTHING)
def produce(_request: ProduceRequest, _context: Any) -> ProduceResponse:
    return ProduceResponse(responses=[])


@handles(FetchRequest, NOTHING)
def fetch(_request: FetchRequest, _context: Any) -> FetchResponse:
    return FetchResponse(error_code=ErrorCode.NONE, session_id=0, responses=[])


async def test_a_connection_that_produces_and_fetches_has_a_fast_path_for_each() -> None:
    Learning.shown.clear()
    broker = Broker([replace(produce, fast_path=OfProduce), replace(fetch, fast_path=OfFetch)])
    peer = broker.connect()
    requests = [
        (ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9),
        (FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 12),
    ]
    for request, version in requests * 2:
        peer.send(request, version)
    assert len(peer.answers()) == 4
    assert Learning.shown == [("OfProduce", ProduceRequest), ("OfFetch", FetchRequest)] * 2

"""Large requests of many connections: decoded one at a time, handled in order, refused like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.requests.large_requests import LARGE_REQUEST_BYTES, Undecoded
from broker.network.routes import DispatchTable, Handler
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.produce import ProduceRequest
from protocol.schema import Request
from security.access import NOTHING
from tests.broker.harness import Broker, settle

VERSION = 5
HEARTBEAT_V = 4
LARGE = DescribeGroupsRequest(groups=[f"group-{number}" for number in range(LARGE_REQUEST_BYTES)])
SMALL = DescribeGroupsRequest(groups=["g"])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class World:
    """A broker whose DescribeGroups takes a few turns of the loop, at long work when many groups are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.decoded = self.most_decoded = 0
        decoder = DescribeGroupsRequest.decoder
        monkeypatch.setattr(DescribeGroupsRequest, "decoder", lambda version: self._counted(decoder(version)))

        @handles(DescribeGroupsRequest, NOTHING)
        async def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
            async with context.services.serial_queue.begin(len(request.groups)):
                self.told.append(f"{context.client_id} begins")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                self.told.append(f"{context.client_id} ends")
            self.decoded -= 1
            return DescribeGroupsResponse(groups=[])

        @handles(HeartbeatRequest, NOTHING)
        async def heartbeat(_: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
            self.told.append(f"{context.client_id} beats")
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        self.broker = Broker([describe_groups, heartbeat])

    def _counted(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            decoded = decode(*arguments)
            self.decoded += 1
            self.most_decoded = max(self.most_decoded, self.decoded)
            return decoded

        return counted

    async def settle(self) -> None:
        for _ in range(30):
            self.broker.turns.run()
            await settle()


async def test_one_at_a_time_and_small_ones_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    peers = [world.broker.connect() for _ in range(4)]
    for peer, name in zip(peers, "abcd", strict=True):
        peer.send(LARGE, VERSION, name)
    small = world.broker.connect()
    small.send(HEARTBEAT, HEARTBEAT_V, "small")
    await world.settle()
    assert world.most_decoded == 1
    others = [each for each in world.told if each != "small beats"]
    assert others == [f"{name} {verb}" for name in "abcd" for verb in ("begins", "ends")]
    assert world.told.index("small beats") < world.told.index("b begins")
    assert [len(peer.answers()) for peer in [*peers, small]] == [1] * 5
    assert world.broker.budget.used_bytes == 0
    assert not world.broker.shared.services.serial_queue.is_busy


async def test_requests_of_one_connection_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    peer = world.broker.connect()
    for _ in range(2):
        peer.send(LARGE, VERSION, "large")
        peer.send(SMALL, VERSION, "small")
    for _ in range(4):
        peer.go_on()
        await world.settle()
    assert world.told == [f"{name} {verb}" for name in ("large", "small") * 2 for verb in ("begins", "ends")]
    assert len(peer.answers()) == 4


async def test_frames_that_wait_in_line_count_against_the_budget_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    peers = [world.broker.connect() for _ in range(5)]
    frame_bytes = len(peers[0].frame(LARGE, VERSION)) - 4
    for peer in peers:
        peer.send(LARGE, VERSION)
    plain = world.broker.plain_budget
    assert plain.parked_bytes >= 4 * frame_bytes
    await world.settle()
    assert [len(peer.answers()) for peer in peers] == [1] * 5
    assert plain.used_bytes == plain.parked_bytes == 0


async def test_who_is_gone_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    first, gone, last = (world.broker.connect() for _ in range(3))
    first.send(LARGE, VERSION, "first")
    gone.send(LARGE, VERSION, "gone")
    last.send(LARGE, VERSION, "last")
    gone.disconnect()
    await world.settle()
    assert world.told == ["first begins", "first ends", "last begins", "last ends"]
    assert world.broker.budget.used_bytes == 0


def test_a_malformed_one_closes_its_connection_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        world = World(monkeypatch)
        bad, good = world.broker.connect(), world.broker.connect()
        frame = bytearray(bad.frame(LARGE, VERSION))
        frame[-LARGE_REQUEST_BYTES:] = b"\xff" * LARGE_REQUEST_BYTES
        bad.send_bytes(bytes(frame))
        good.send(LARGE, VERSION, "good")
        await world.settle()
        assert bad.stream.is_closed
        assert len(good.answers()) == 1
        bad.disconnect()  # what its request holds goes with the connection
        assert world.broker.budget.used_bytes == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "malformed DescribeGroups version 5" in caplog.text


def test_what_the_controller_sends_and_what_holds_records_is_decoded_at_once() -> None:
    @handles(LeaderAndIsrRequest, NOTHING)
    async def leader_and_isr(_: Any, __: RequestContext) -> None: ...

    @handles(ProduceRequest, NOTHING)
    def produce(_: Any, __: RequestContext) -> None: ...

    @handles(DescribeGroupsRequest, NOTHING)
    async def describe_groups(_: Any, __: RequestContext) -> None: ...

    handlers: list[Handler[Any]] = [leader_and_isr, produce, describe_groups]
    table = DispatchTable(handlers)
    spare = bytes(LARGE_REQUEST_BYTES)  # what is left over is ignored
    control = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, live_leaders=[])
    produced = ProduceRequest(acks=1, timeout_ms=1, topic_data=[])
    at_once: list[tuple[Request, int]] = [(control, 4), (produced, 9)]
    for request, version in at_once:
        route = table.route(request.api_key, version)
        assert route is not None
        assert isinstance(route.decode(request.encode(version) + spare, 0, 100)[0], type(request))
    route = table.route(DescribeGroupsRequest.api_key, VERSION)
    assert route is not None
    small, _ = route.decode(SMALL.encode(VERSION), 0, 100)
    assert isinstance(small, DescribeGroupsRequest)
    assert isinstance(route.decode(SMALL.encode(VERSION) + spare, 0, 100)[0], Undecoded)

"""A broker joins the others and leaves them: announced, expired, refused, alone, stopping."""

from __future__ import annotations

import asyncio

from broker.cluster.topics_at_start import TopicAtStart
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop
from tests.simulation.machine import End


@simulated(2)
async def test_a_stopping_broker_hands_its_leaderships_over_first(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=6)
    for leaving in (1, 2, 3):
        others = [broker for broker_id, broker in world.live.items() if broker_id != leaving]
        led = [index for index in range(6) if world.leader_of("orders", index) == leaving]
        began_s = loop.time()
        stopping = asyncio.ensure_future(world.machines[leaving].stop())
        await world.until(
            lambda others=others, leaving=leaving: all(  # type: ignore[misc]
                other.metadata.image.partition("orders", index).leader not in (leaving, -1)  # type: ignore[union-attr]
                for other in others
                for index in range(6)
            )
        )
        assert loop.time() - began_s < 0.3, f"{led} were without a leader for long"
        assert (await stopping).how is End.STOPPED
        assert loop.time() - began_s < 3
        assert (await world.produce("orders", b"x", led[0] if led else 0))[0] is ErrorCode.NONE
        await world.start(leaving)
        await world.until(lambda: all(world.isr_of("orders", index) == {1, 2, 3} for index in range(6)))


@simulated(5)
async def test_brokers_stop_though_the_ensemble_is_gone(loop: SimLoop) -> None:
    """In less than the 30 s that those who stop containers usually give; what it has on the disk is as clean as ever."""
    world = ClusterWorld(loop, zookeeper_session_timeout_ms="18000", controlled_shutdown_retry_backoff_ms="5000")
    world.ensemble.session_timeout_s = 18
    await world.start()
    await world.create_topic("orders", partitions=6)
    for machine in world.machines.values():
        assert machine.broker is not None
        machine._access.store.session().cut()  # type: ignore[union-attr]
    first = world.controller_id
    for leaving in (first, *(broker_id for broker_id in world.live if broker_id != first)):
        began_s = loop.time()
        assert (await world.machines[leaving].stop()).how is End.STOPPED
        assert loop.time() - began_s < 25


@simulated(4)
async def test_a_broker_whose_session_expired_registers_again_and_goes_on(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=3)
    for broker_id in (world.controller_id, *world.live):
        broker = world.live[broker_id]
        epoch = broker.broker_epoch
        world.machines[broker_id].expire_session()
        await world.until(lambda broker=broker, epoch=epoch: broker.broker_epoch > epoch)  # type: ignore[misc]
        await world.until(lambda: all(set(b.metadata.image.brokers) == {1, 2, 3} for b in world.live.values()))
        await world.until(lambda: all(world.leader_of("orders", index) != -1 for index in range(3)))
        await world.until(lambda: all(world.isr_of("orders", index) == {1, 2, 3} for index in range(3)))
        for index in range(3):
            assert (await world.produce("orders", b"x", index))[0] is ErrorCode.NONE
    assert {machine.is_serving for machine in world.machines.values()} == {True}
    assert [b for b, broker in world.live.items() if broker.services.controller.is_active] == [world.controller_id]


@simulated(5)
async def test_an_id_that_another_broker_holds_is_waited_for_and_then_refused(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1,))
    await world.start()
    other = world.machine(1, "elsewhere")
    began_s = loop.time()
    assert not await other.start()
    assert 30 < loop.time() - began_s < 60
    assert "broker id 1 is registered by session" in other._reason
    assert world.machines[1].is_serving


async def start_third_unannounced(world: ClusterWorld) -> asyncio.Future[bool]:
    """Broker 3 runs, and neither of the others reaches it. Done when it serves."""
    await world.start(1, 2)
    for broker_id in (1, 2):
        world.network.cut(f"host{broker_id}", "host3")
    served = world.machines[3].start()
    await asyncio.sleep(1)
    assert not served.done()
    return served


@simulated(7)
async def test_requests_wait_until_the_broker_is_announced(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    served = await start_third_unannounced(world)
    client = await world.client(3)
    versions = await client.send(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert versions.error_code == ErrorCode.NONE
    asked = asyncio.ensure_future(client.send(MetadataRequest(topics=None), 9, MetadataResponse))
    await asyncio.sleep(2)
    assert not asked.done()
    broker = world.machines[3].broker
    assert broker is not None
    assert (broker.is_ready, broker.phase) == (False, "waiting to be announced by the controller")
    world.network.heal()
    assert await served
    answer = await asked
    assert {row.node_id for row in answer.brokers} == {1, 2, 3}
    assert broker.is_ready


@simulated(8)
async def test_a_request_does_not_wait_for_ever(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    served = await start_third_unannounced(world)
    client = await world.client(3)
    began_s = loop.time()
    try:
        await client.send(MetadataRequest(topics=None), 9, MetadataResponse)
    except OSError:
        assert 25 < loop.time() - began_s < 45
    else:
        raise AssertionError("nobody could know the answer")
    world.network.heal()
    assert await served


@simulated(19)
async def test_topics_at_start_wait_for_the_brokers_that_they_need(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    world.machines[1].topics = [TopicAtStart("orders", 2, 3), TopicAtStart("small", 1, 1)]
    first = world.machines[1].start()
    await asyncio.sleep(3)
    assert not first.done()
    broker = world.machines[1].broker
    assert broker is not None
    assert broker.phase == "creating topics"
    assert set(broker.metadata.image.topics) == {"small"}
    await world.start(2, 3)
    assert await first
    assert set(broker.metadata.image.topics) == {"small", "orders"}

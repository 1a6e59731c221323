"""A broker's place in the tree: who may register, what a lost answer means, and what the nodes hold."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator

import pytest

from config.broker import BrokerSettings
from metadata.store import znodes
from metadata.store.port import ConnectionLossError, Create, Transaction
from metadata.store.registration import (
    BrokerIdTakenError,
    brokers_of_topics,
    choose_broker_id,
    cluster_id,
    ensure_persistent_paths,
    register_broker,
)
from metadata.store.znodes import BrokerRegistration, RegisteredEndpoint, ReplicaAssignment, TopicRegistration
from protocol.primitives import ZERO_UUID
from runtime.clock import SystemClock
from tests.simulation.store import Fault, SimulatedEnsemble, SimulatedStore

NODE = (
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    '"endpoints":["PLAINTEXT://127.0.0.1:9192"],"jmx_port":-1,"port":9192,"host":"127.0.0.1",'
    '"version":5,"timestamp":"1795246860390"}'
)


def description(port: int = 9192, timestamp_ms: int = 1795246860390) -> BrokerRegistration:
    return BrokerRegistration(1, (RegisteredEndpoint("PLAINTEXT", "127.0.0.1", port),), timestamp_ms)


def faulty(*fates: Fault | None) -> Callable[[int, Transaction], Fault | None]:
    """One fate for each write that comes, then none."""
    coming: Iterator[Fault | None] = iter(fates)
    return lambda _session_id, _operations: next(coming, None)


async def joined(ensemble: SimulatedEnsemble) -> SimulatedStore:
    store = ensemble.connect()
    await ensure_persistent_paths(store)
    return store


async def register(store: SimulatedStore, registration: BrokerRegistration | None = None) -> int:
    return await register_broker(store.session(), store.session().session_id, registration or description())


async def test_the_node_is_apache_kafkas_byte_for_byte_and_its_czxid_is_the_epoch() -> None:
    store = await joined(SimulatedEnsemble(SystemClock()))
    epoch = await register(store)
    data, stat = await store.get("/brokers/ids/1")
    assert data.decode() == NODE
    assert (epoch, stat.ephemeral_owner) == (stat.czxid, store.session().session_id)


@pytest.mark.parametrize("fault", Fault)
async def test_a_registration_without_an_answer_is_looked_up(fault: Fault) -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    store = await joined(ensemble)
    ensemble.fault = faulty(fault)
    epoch = await register(store)
    stat = await store.exists("/brokers/ids/1")
    assert stat is not None
    assert (stat.czxid, stat.version) == (epoch, 0)


async def test_a_store_that_never_answers_is_told_as_that() -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    store = await joined(ensemble)
    ensemble.fault = lambda _session_id, _operations: Fault.REQUEST_LOST
    with pytest.raises(ConnectionLossError):
        await register(store)
    with pytest.raises(ConnectionLossError):
        await cluster_id(store, random.Random(1))


async def test_the_same_session_registers_anew_and_keeps_its_epoch() -> None:
    store = await joined(SimulatedEnsemble(SystemClock()))
    epoch = await register(store)
    assert await register(store) == epoch
    assert await register(store, description(port=9999)) == epoch
    data, stat = await store.get("/brokers/ids/1")
    assert json.loads(data)["port"] == 9999
    assert stat.version == 1


async def test_a_node_of_another_session_is_not_touched_and_a_new_session_has_a_higher_epoch() -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    one, two = await joined(ensemble), await joined(ensemble)
    first = await register(one, description(timestamp_ms=1))
    with pytest.raises(BrokerIdTakenError, match="broker id 1 is registered by session 0x1"):
        await register(two)
    assert (await two.get("/brokers/ids/1"))[1].czxid == first
    ensemble.expire(one.session().session_id)
    assert await register(two) > first


def test_an_owner_that_ends_between_the_attempt_and_the_look_is_no_obstacle() -> None:
    async def run() -> None:
        ensemble = SimulatedEnsemble(SystemClock())
        one, two = await joined(ensemble), await joined(ensemble)
        await register(one)
        own = two.session().session_id
        other = one.session().session_id

        def end_the_other(session_id: int, operations: Transaction) -> Fault | None:
            nonlocal other
            if session_id == own and isinstance(operations[0], Create) and other:
                asyncio.get_running_loop().call_soon(ensemble.expire, other)
                other = 0
            return None

        ensemble.fault = end_the_other
        assert await register(two) > 0

    asyncio.run(run())


@pytest.mark.parametrize("fault", Fault)
async def test_persistent_paths_are_made_whatever_gets_lost(fault: Fault) -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    ensemble.fault = faulty(*[fault, None] * 50)
    store = await joined(ensemble)
    for path in znodes.PERSISTENT_PATHS:
        assert await store.exists(path) is not None
    assert (await store.get("/feature"))[0] == b'{"features":{},"version":2,"status":1}'


@pytest.mark.parametrize("fault", [None, *Fault])
async def test_the_first_broker_names_the_cluster_and_all_others_agree(fault: Fault | None) -> None:
    ensemble = SimulatedEnsemble(SystemClock())
    stores = [await joined(ensemble) for _ in range(3)]
    ensemble.fault = faulty(None, fault)
    ids = await asyncio.gather(*(cluster_id(store, random.Random(seed)) for seed, store in enumerate(stores)))
    assert len(set(ids)) == 1
    data, _ = await stores[0].get("/cluster/id")
    assert data.decode() == f'{{"version":"1","id":"{ids[0]}"}}'
    assert await cluster_id(stores[1], random.Random(9), "remembered") == ids[0]
    assert await cluster_id((await joined(SimulatedEnsemble(SystemClock()))), random.Random(9), "kept") == "kept"


OF_FIVE, OF_BOTH = ReplicaAssignment((5,)), ReplicaAssignment((5, 6))


@pytest.mark.parametrize(
    ("topics", "numbers_given", "chosen"),
    [
        ({}, 0, 1001),
        ({}, 3, 1003),
        ({"a": {0: OF_FIVE}, "b": {0: OF_FIVE, 1: OF_FIVE}}, 0, 5),
        ({"a": {0: OF_FIVE}, "b": {}}, 3, 5),
        ({"a": {0: OF_FIVE}, "b": {0: OF_BOTH}}, 3, 1003),
    ],
)
def test_a_broker_alone_without_a_number_is_the_one_that_its_store_knows(
    topics: dict[str, dict[int, ReplicaAssignment]], numbers_given: int, chosen: int
) -> None:
    async def run() -> None:
        store = await joined(SimulatedEnsemble(SystemClock()))
        for _ in range(numbers_given):
            await store.set(znodes.BROKER_SEQUENCE, b"")
        for name, assignments in topics.items():
            await store.create(znodes.topic_path(name), TopicRegistration(ZERO_UUID, assignments).encode())
        await store.create(znodes.topic_path("unreadable"), b"?")
        assert await choose_broker_id(store, BrokerSettings({}), None) == chosen
        assert await choose_broker_id(store, BrokerSettings({}), 9) == 9
        assert await choose_broker_id(store, BrokerSettings({"broker.id": "4"}), 9) == 4

    asyncio.run(run())


async def test_topics_are_read_until_the_sought_broker_is_found() -> None:
    store = await joined(SimulatedEnsemble(SystemClock()))
    for name, assignment in (("a", OF_FIVE), ("b", OF_BOTH)):
        await store.create(znodes.topic_path(name), TopicRegistration(ZERO_UUID, {0: assignment}).encode())
    assert await brokers_of_topics(store) == {5, 6}
    assert await brokers_of_topics(store, 5) == {5}
    assert await brokers_of_topics(store, 7) == {5, 6}

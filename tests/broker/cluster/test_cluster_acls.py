"""ACLs are loaded before anybody is served, are in force on every broker, and stay so when the store is away."""

from __future__ import annotations

import asyncio

import pytest

from broker.cluster.cluster_acls import DeletedAcl, follow_acls
from config.errors import ConfigError
from config.inter_broker_version import InterBrokerVersion
from metadata.store import acls as nodes
from metadata.store import change_nodes
from metadata.store.acls import AclNode, AclRow
from protocol.errors import ErrorCode
from runtime.slices import Slices
from runtime.tasks import TaskScope
from security.access import Operation, ResourceType
from security.acls.entries import ANY, AclFilter, EntryFilter, PatternFilter, PatternType, PermissionType
from security.authorizer import EverybodyAllowed
from tests.async_tests import simulated
from tests.broker.acl_world import ALICE, LATEST, AclWorld, acl
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import SimulatedEnsemble

PREFIXED = PatternType.PREFIXED
EVERY_ENTRY = EntryFilter(None, None, ANY, ANY)
EVERYTHING = AclFilter(PatternFilter(ANY, None, PatternType.ANY), EVERY_ENTRY)
ORDERS = AclFilter(PatternFilter(ResourceType.TOPIC, "orders", PatternType.LITERAL), EVERY_ENTRY)


@simulated(1)
async def test_what_is_stored_at_the_start_is_in_force() -> None:
    async with AclWorld() as world:
        first = await world.broker()
        assert await first.acls.create([acl(), acl("pay", pattern_type=PREFIXED)]) == [None, None]
        second = await world.broker()
        for broker in (first, second):
            assert broker.allows("orders")
            assert broker.allows("payments")
            assert not broker.allows("other")


@simulated(1)
async def test_changes_are_in_force_where_they_were_made_and_then_everywhere() -> None:
    async with AclWorld() as world:
        one, other = await world.broker(), await world.broker()
        for pattern_type in (PatternType.LITERAL, PREFIXED):
            for _ in range(3):
                await one.acls.create([acl(pattern_type=pattern_type)])
                assert one.allows()
                await asyncio.sleep(0.1)
                assert other.allows()
                gone = await other.acls.delete([EVERYTHING], Slices(world.clock))
                assert gone == [[DeletedAcl(acl(pattern_type=pattern_type), None)]]
                assert not other.allows()
                await asyncio.sleep(0.1)
                assert not one.allows()


@simulated(1)
async def test_what_others_write_is_in_force() -> None:
    """As Apache Kafka's brokers and kafka-acls.sh write it: the node first, then the notification."""
    async with AclWorld() as world:
        broker = await world.broker()
        rows = nodes.encode_rows([AclRow("User:alice", "Allow", "*", "Read")])
        await world.store.create("/kafka-acl/Topic/orders", rows)
        await asyncio.sleep(0.1)
        assert not broker.allows()
        await world.store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True)
        await asyncio.sleep(0.1)
        assert broker.allows()
        await world.store.delete("/kafka-acl/Topic/orders")
        await world.store.create("/kafka-acl-changes/acl_changes_", b"nonsense", sequential=True)
        await world.store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True)
        await asyncio.sleep(0.1)
        assert not broker.allows()


@simulated(1)
async def test_brokers_that_change_a_pattern_at_the_same_time_lose_nothing() -> None:
    async with AclWorld() as world:
        brokers = [await world.broker() for _ in range(3)]
        operations = [Operation.READ, Operation.WRITE, Operation.ALTER]
        made = await asyncio.gather(
            *(broker.acls.create([acl(operation=each)]) for broker, each in zip(brokers, operations, strict=True))
        )
        assert made == [[None]] * 3
        await asyncio.sleep(0.1)
        for broker in brokers:
            assert {entry.operation for entry in broker.acls.index.entries(acl().pattern)} == set(operations)


@pytest.mark.parametrize("ends", [True, False])
@simulated(1)
async def test_what_changed_while_the_store_could_not_be_reached_is_read_afterwards(ends: bool) -> None:
    async with AclWorld() as world:
        one, other = await world.broker(), await world.broker()
        await one.acls.create([acl(), acl("old", pattern_type=PREFIXED)])
        await asyncio.sleep(0.1)
        session = other.store.session()
        session.cut()
        await one.acls.delete([EVERYTHING], Slices(world.clock))
        await one.acls.create([acl("new")])
        await asyncio.sleep(world.ensemble.session_timeout_s * 2 if ends else 1)
        assert other.allows("orders"), "what it knew stays in force"
        session.mend()
        await asyncio.sleep(1)
        assert (other.store.session() is not session) is ends
        assert [other.allows(name) for name in ("orders", "older", "new")] == [False, False, True]
        await one.acls.create([acl("newer")])
        await asyncio.sleep(0.1)
        assert other.allows("newer"), "it follows again"


@simulated(1)
async def test_a_client_is_told_when_the_store_does_not_answer() -> None:
    async with AclWorld() as world:
        broker = await world.broker()
        await broker.acls.create([acl()])
        broker.store.session().cut()
        [error] = await broker.acls.create([acl("new")])
        assert error is not None
        assert error.code is ErrorCode.REQUEST_TIMED_OUT


def test_only_the_pattern_whose_node_cannot_be_read_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def program(_loop: SimLoop) -> None:
        async with AclWorld() as world:
            broker = await world.broker()
            await broker.acls.create([acl()])
            await world.store.set("/kafka-acl/Topic/orders", b"not JSON")
            await world.store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True)
            await asyncio.sleep(0.1)
            assert broker.allows(), "what it knew stays in force"
            refused, made = await broker.acls.create([acl(operation=Operation.WRITE), acl("other")])
            assert made is None
            assert refused is not None
            assert refused.code is ErrorCode.UNKNOWN_SERVER_ERROR
            [[deleted]] = await broker.acls.delete([ORDERS], Slices(world.clock))
            assert deleted.binding == acl()
            assert deleted.error is not None
            with pytest.raises(ConfigError, match="/kafka-acl/Topic/orders cannot be read"):
                await world.broker()

    simulate(1, program)
    assert "ACLs not changed: path=/kafka-acl/Topic/orders" in caplog.text


def test_entries_that_nobody_understands_have_no_effect_and_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def program(_loop: SimLoop) -> None:
        async with AclWorld() as world:
            strange = [AclRow("User:alice", "Allow", "*", "Fly"), AclRow("User:alice", "Perhaps", "*", "Read")]
            await nodes.ensure_acl_paths(world.store)
            await world.store.create("/kafka-acl/Topic/orders", nodes.encode_rows(strange))
            broker = await world.broker()
            assert not broker.allows()
            await broker.acls.create([acl()])
            await broker.acls.delete([EVERYTHING], Slices(world.clock))
            node = AclNode("TOPIC", "orders", nodes.LITERAL)
            assert await nodes.read_nodes(world.store, [node]) == {node: strange}

    simulate(1, program)
    assert "ACL without effect" in caplog.text


@simulated(1)
async def test_each_deleted_acl_is_with_the_first_filter_that_selects_it() -> None:
    async with AclWorld() as world:
        broker = await world.broker()
        allow, deny = acl(), acl(permission=PermissionType.DENY)
        other, prefixed = acl("other"), acl("ord", pattern_type=PREFIXED)
        await broker.acls.create([allow, deny, other, prefixed])
        denials = AclFilter(EVERYTHING.patterns, EntryFilter(str(ALICE), "*", ANY, PermissionType.DENY))
        match = AclFilter(PatternFilter(ResourceType.TOPIC, "orders", PatternType.MATCH), EVERY_ENTRY)
        impossible = AclFilter(PatternFilter(ResourceType.TOPIC, "a/b", PatternType.ANY), EVERY_ENTRY)
        deleted = await broker.acls.delete([impossible, denials, match, ORDERS, EVERYTHING], Slices(world.clock))
        assert [[each.binding for each in by] for by in deleted] == [[], [deny], [prefixed, allow], [], [other]]
        assert len(broker.acls.index) == 0


@simulated(1)
async def test_what_another_broker_has_just_written_is_deleted_by_name() -> None:
    async with AclWorld() as world:
        one, other = await world.broker(), await world.broker()
        other.store.session().watches.children.clear()  # its notifications are late
        await one.acls.create([acl()])
        [[deleted]] = await other.acls.delete([ORDERS], Slices(world.clock))
        assert deleted == DeletedAcl(acl(), None)
        await asyncio.sleep(0.1)
        assert not one.allows()


@simulated(1)
async def test_notifications_that_everybody_has_seen_are_removed(loop: SimLoop) -> None:
    async with AclWorld(SimClock(loop)) as world:
        broker = await world.broker()
        await broker.acls.create([acl()])
        await asyncio.sleep(change_nodes.EXPIRATION_MS / 1000 + 60)
        await broker.acls.create([acl("other")])
        await asyncio.sleep(1)
        assert await world.store.children("/kafka-acl-changes") == ["acl_changes_0000000001"]


@simulated(1)
async def test_a_broker_without_acls_has_no_nodes_of_them(loop: SimLoop) -> None:
    ensemble = SimulatedEnsemble(SimClock(loop))
    store, tasks = ensemble.connect(), TaskScope("test")
    assert await follow_acls(EverybodyAllowed(), store, tasks, SimClock(loop), InterBrokerVersion.parse(LATEST)) is None
    assert await store.exists("/kafka-acl") is None
    await tasks.close()


@simulated(1)
async def test_after_its_end_nothing_is_followed() -> None:
    async with AclWorld() as world:
        one, other = await world.broker(), await world.broker()
        other.acls.close()
        await one.acls.create([acl()])
        await asyncio.sleep(0.1)
        assert not other.allows()


@simulated(1)
async def test_prefixed_patterns_wait_until_every_broker_understands_them() -> None:
    async with AclWorld() as world:
        old, new = await world.broker("2.0-IV0"), await world.broker("2.0-IV1")
        refused, made = await old.acls.create([acl(pattern_type=PREFIXED), acl("other")])
        assert made is None
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REQUEST
        assert await new.acls.create([acl(pattern_type=PREFIXED)]) == [None]

"""Brokers change ACLs at random while sessions are cut, silent and over, and requests and replies are lost.

Whatever happens: once the store can be reached again, every broker decides by what the store has; a change that was
acknowledged is there unless a later one took it back; a change that was refused for good is not.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from broker.cluster import cluster_acls
from metadata.store import acls as nodes
from metadata.store.acls import AclNode
from metadata.store.change_nodes import ChangeNode
from protocol.errors import ErrorCode
from runtime.slices import Slices
from security.access import Operation, ResourceType
from security.acls.entries import ANY, AclBinding, AclFilter, EntryFilter, PatternFilter, PatternType
from security.principal import Principal
from tests.broker.acl_world import AclBroker, AclWorld, acl
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import Fault

BROKERS = 3
CHANGES = 120
MOMENTS = 30
"""Changes of one moment meet."""
NAMES = ("a", "ab", "b")
USERS = tuple(Principal("User", f"user-{number}") for number in range(15))


class Outcome:
    """What is known of one binding: whether it is there, or None while a change is unsure or concurrent with another."""

    def __init__(self) -> None:
        self.is_there: bool | None = False
        self.changing_count = 0
        self.was_alone = True

    def begin(self) -> None:
        self.changing_count += 1
        if self.changing_count > 1:
            self.is_there = None

    def end(self, *, is_there: bool, error: ErrorCode | None) -> None:
        self.changing_count -= 1
        alone = self.changing_count == 0
        if error is None:
            self.is_there = is_there if alone and self.was_alone else None
        elif error is ErrorCode.REQUEST_TIMED_OUT:
            self.is_there = None
        self.was_alone = alone


def selecting(binding: AclBinding) -> AclFilter:
    pattern, entry = binding
    return AclFilter(PatternFilter(*pattern), EntryFilter(str(entry.principal), entry.host, ANY, ANY))


class Run:
    def __init__(self, loop: SimLoop, random: Random) -> None:
        self.random = random
        self.world = AclWorld(SimClock(loop))
        self.outcomes: dict[AclBinding, Outcome] = {}
        self.brokers: list[AclBroker] = []
        self.failed_count = self.done_count = 0

    async def play(self) -> None:
        async with self.world as world:
            self.brokers = [await world.broker() for _ in range(BROKERS)]
            world.ensemble.latency_s = lambda: self.random.uniform(0.001, 0.05)
            world.ensemble.loses_request = lambda: self.random.random() < 0.5
            world.ensemble.fault = self._fault
            faults = asyncio.ensure_future(self._break_sessions())
            await asyncio.gather(*(self._change(number) for number in range(CHANGES)))
            faults.cancel()
            world.ensemble.fault = lambda _session_id, _operations: None
            for broker in self.brokers:
                broker.store.session().mend()
                broker.store.session().speak_again()
            await asyncio.sleep(60)
            await self._check()

    def _fault(self, _session_id: int, _operations: object) -> Fault | None:
        return self.random.choice(list(Fault)) if self.random.random() < 0.1 else None

    async def _break_sessions(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.1, 3))
            session = self.random.choice(self.brokers).store.session()
            how = self.random.choice(("cut", "silence", "expire"))
            if how == "expire" and not session.is_over:
                self.world.ensemble.expire(session.session_id)
            elif how == "silence":
                session.fall_silent()
                await asyncio.sleep(self.random.choice((1, 20)))
                session.speak_again()
            else:
                session.cut()
                await asyncio.sleep(self.random.choice((0.2, 20)))
                session.mend()

    async def _change(self, number: int) -> None:
        await asyncio.sleep(2 * self.random.randrange(MOMENTS))
        pattern_type = self.random.choice((PatternType.LITERAL, PatternType.PREFIXED))
        binding = acl(self.random.choice(NAMES), principal=self.random.choice(USERS), pattern_type=pattern_type)
        outcome = self.outcomes.setdefault(binding, Outcome())
        broker, creates = self.random.choice(self.brokers), self.random.random() < 0.6
        outcome.begin()
        error = None
        if creates:
            [refusal] = await broker.acls.create([binding])
        else:
            [deleted] = await broker.acls.delete([selecting(binding)], Slices(self.world.clock))
            refusal = next((each.error for each in deleted if each.error is not None), None)
            if not deleted and outcome.is_there is not False:
                # Nothing was there, or the store did not answer: DeleteAcls does not say which.
                outcome.is_there = None
                error = ErrorCode.REQUEST_TIMED_OUT
        error = error or (None if refusal is None else refusal.code)
        assert error in (None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR), number
        self.failed_count += error is not None
        self.done_count += error is None
        outcome.end(is_there=creates, error=error)

    async def _check(self) -> None:
        stored = set()
        store = self.world.ensemble.connect()
        named = await nodes.named_nodes(store)
        for node, rows in (await nodes.read_nodes(store, named)).items():
            assert not isinstance(rows, nodes.InvalidAclNode)
            assert rows, "a pattern without entries has a node"
            assert len(set(rows)) == len(rows)
            for row in rows:
                entry = cluster_acls._entry(row)
                assert entry is not None
                stored.add(AclBinding(cluster_acls._pattern(node), entry))
        for broker in self.brokers:
            assert set(broker.acls.index) == stored
            for name in NAMES:
                for user in USERS:
                    expected = any(
                        entry.principal == user and pattern.applies_to(ResourceType.TOPIC, name)
                        for pattern, entry in stored
                    )
                    found = broker.authorizer.allows(user, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
                    assert found is expected
        for binding, outcome in self.outcomes.items():
            if outcome.is_there is not None:
                assert (binding in stored) is outcome.is_there, binding


@pytest.mark.parametrize("seed", range(12))
def test_brokers_agree_with_the_store_whatever_happens(seed: int) -> None:
    runs = []

    async def program(loop: SimLoop) -> None:
        run = Run(loop, Random(seed))
        await run.play()
        runs.append(run)

    simulate(seed, program)
    [run] = runs
    assert run.done_count > CHANGES // 3
    assert any(outcome.is_there is not None for outcome in run.outcomes.values())


# --- planted bugs ---


def _fails(seeds: range) -> int:
    """How many seeds find a difference."""
    failed = 0
    for seed in seeds:
        try:
            test_brokers_agree_with_the_store_whatever_happens(seed)
        except AssertionError:
            failed += 1
    return failed


def test_a_broker_that_forgets_to_read_after_a_session_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: object) -> None:
        return

    monkeypatch.setattr(cluster_acls.ClusterAcls, "_on_new_session", nothing)
    assert _fails(range(6))


def test_a_write_without_its_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nodes._transaction

    def careless(node: AclNode, rows: object, version: int | None, **how: bool) -> object:
        return whole(node, rows, None if version is None else -1, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(nodes, "_transaction", careless)
    assert _fails(range(6))


def test_a_change_that_is_not_told_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(change: ChangeNode, _pattern_type: str) -> None:
        del change

    monkeypatch.setattr(nodes, "_node_of", unread)
    assert _fails(range(6))

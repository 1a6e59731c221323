"""Whatever clients do, in whatever order and with a log that fails: what holds of a group shard at every moment.

The property that matters most: replaying the records that were committed yields the durable state that was live
(`Scenario.perform` checks it after every step).
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.group.classic.assignment_sync import Assignment
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import JoinTimer, SessionTimer, SyncTimer
from coordinator.group.classic.waiting_bytes import MEMBER_BYTES, size_of
from coordinator.group.settings import GroupSettings
from coordinator.runtime.contract import Effect
from tests.coordinator.driver import GroupDriver
from tests.coordinator.scenario import Scenario

NAMES = st.sampled_from("abcd")
GROUPS = st.sampled_from(["g", "h"])
PROTOCOLS = st.sampled_from(["range:t", "range:t+u", "sticky:t,range:t", "range:t,sticky:t", "sticky:u"])
PLACES = st.lists(st.sampled_from(["t-0", "t-1", "u-0"]), min_size=1, max_size=3, unique=True)
PRODUCERS = st.sampled_from([7, 8])
ERRORS = st.sampled_from(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"])
DURATIONS = st.sampled_from(["1ms", "3s", "6s", "10s", "59s", "3m", "8d"])


class CountingDriver(GroupDriver):
    """Remembers who was answered."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.answered: Counter[object] = Counter()
        super().__init__(settings)

    def carry_out(self, effects: list[Effect]) -> None:
        known = len(self.responses)
        super().carry_out(effects)
        self.answered.update(waiter for waiter, _ in self.responses[known:])


class GroupMachine(RuleBasedStateMachine):
    """Clients a to d in groups g and h; a client has one member id in each group."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = CountingDriver(GroupSettings(max_size=3, waiting_max_bytes=3 * MEMBER_BYTES))
        self.scenario = Scenario(self.driver)
        self.waiters: set[str] = set()

    def perform(self, line: str) -> None:
        self.scenario.waiter_suffix = f" #{len(self.waiters)}"
        words = line.split()
        match words[0]:
            case "join" | "sync" | "commit" | "txn-commit":
                self.waiters.add(f"{words[1]} {words[0]}{self.scenario.waiter_suffix}")
            case "delete" | "delete-offsets":
                self.waiters.add(f"{words[0]}{self.scenario.waiter_suffix}")
        self.scenario.perform(line)

    def ask(self, line: str, name: str, group_id: str) -> None:
        verb, _, rest = line.partition(" ")
        self.perform(f"{verb} {name}{group_id} group={group_id} {rest}")

    @rule(name=NAMES, group_id=GROUPS, protocols=PROTOCOLS, version=st.sampled_from([0, 3, 4, 9]))
    def join(self, name: str, group_id: str, protocols: str, version: int) -> None:
        self.ask(f"join v={version} protocols={protocols}", name, group_id)

    @rule(name=st.sampled_from("ab"), group_id=GROUPS, protocols=PROTOCOLS, returns=st.booleans())
    def join_static(self, name: str, group_id: str, protocols: str, returns: bool) -> None:
        member = " member=?" if returns else ""
        self.ask(f"join v=9 protocols={protocols} instance=i{name}{member}", name, group_id)

    @rule(name=NAMES, group_id=GROUPS)
    def sync(self, name: str, group_id: str) -> None:
        if f"{name}{group_id}" in self.scenario.clients:
            parts = ",".join(f"{each}{group_id}:{each}" for each in "abcd")
            self.ask(f"sync assign={parts}", name, group_id)

    @rule(group_id=GROUPS, are_static=st.booleans())
    def form_generation(self, group_id: str, are_static: bool) -> None:
        """Chance alone seldom makes a group stable."""
        for name in "ab":
            instance = f" instance=i{name}" if are_static else ""
            self.ask(f"join v=3{instance}", name, group_id)
        self.perform("advance 6s")
        for name in "ba":
            self.sync(name, group_id)

    @rule(name=NAMES, group_id=GROUPS)
    def heartbeat(self, name: str, group_id: str) -> None:
        self.ask("heartbeat", name, group_id)

    @rule(name=NAMES, group_id=GROUPS)
    def leave(self, name: str, group_id: str) -> None:
        self.ask("leave", name, group_id)

    @rule(name=NAMES, group_id=GROUPS, places=PLACES, offset=st.integers(0, 99), simple=st.booleans())
    def commit(self, name: str, group_id: str, places: list[str], offset: int, simple: bool) -> None:
        offsets = " ".join(f"{place}={offset}" for place in places)
        if simple:
            self.perform(f"commit - group={group_id} {offsets}")
        else:
            self.ask(f"commit {offsets}", name, group_id)

    @rule(
        name=NAMES,
        group_id=GROUPS,
        places=PLACES,
        offset=st.integers(0, 99),
        producer=PRODUCERS,
        names_member=st.booleans(),
    )
    def commit_in_transaction(
        self, name: str, group_id: str, places: list[str], offset: int, producer: int, names_member: bool
    ) -> None:
        offsets = " ".join(f"{place}={offset}" for place in places)
        if names_member:
            self.ask(f"txn-commit {offsets} producer={producer}", name, group_id)
        else:
            self.perform(f"txn-commit - group={group_id} {offsets} producer={producer}")

    @rule(producer=PRODUCERS, outcome=st.sampled_from(["commit", "abort"]))
    def end_transaction(self, producer: int, outcome: str) -> None:
        self.perform(f"end {outcome} producer={producer}")

    @rule(group_id=GROUPS)
    def delete(self, group_id: str) -> None:
        self.perform(f"delete group={group_id}")

    @rule(group_id=GROUPS, places=PLACES)
    def delete_offsets(self, group_id: str, places: list[str]) -> None:
        self.perform(f"delete-offsets group={group_id} {' '.join(places)}")

    @rule(places=PLACES)
    def topics_gone(self, places: list[str]) -> None:
        self.perform(f"topics-gone {' '.join(places)}")

    @rule()
    def expire(self) -> None:
        self.perform("expire")

    @rule(duration=DURATIONS)
    def advance(self, duration: str) -> None:
        self.perform(f"advance {duration}")

    @rule()
    def hold(self) -> None:
        self.perform("hold")

    @rule()
    def release(self) -> None:
        self.perform("release")

    @rule(error=ERRORS)
    def fail(self, error: str) -> None:
        self.perform(f"fail {error}")

    @rule(error=ERRORS)
    def refuse_one(self, error: str) -> None:
        self.perform(f"refuse {error}")
        self.perform("delete group=g")
        self.perform("commit - group=h t-0=1")
        self.perform("accept")

    @rule()
    def time_out(self) -> None:
        self.perform("time-out")

    @rule()
    def reload(self) -> None:
        self.perform("reload")

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        assert all(count == 1 for count in self.driver.answered.values())

    @invariant()
    def groups_are_consistent(self) -> None:
        for group in self.driver.shard._groups:
            self._check(group)

    @invariant()
    def what_waits_is_counted(self) -> None:
        joining = sum(
            size_of(member.protocols)
            for group in self.driver.shard._groups
            for member in group.members.values()
            if member.joining is not None
        )
        staged = sum(
            result.change.size_bytes for result in self.driver.in_flight if isinstance(result.change, Assignment)
        )
        assert self.driver.waiting.used_bytes == joining + staged

    @invariant()
    def offsets_of_open_transactions_are_unstable(self) -> None:
        for group in self.driver.shard._groups:
            for pending in group.offsets.transactional_offsets().values():
                assert all(group.offsets.is_unstable(topic_partition) for topic_partition in pending)

    def _check(self, group: ClassicGroup) -> None:
        members = group.members.values()
        assert all(member_id == member.member_id for member_id, member in group.members.items())
        assert group.joining_count == sum(member.joining is not None for member in members)
        assert group.static_members == {
            member.group_instance_id: member.member_id for member in members if member.group_instance_id is not None
        }
        assert group.pending_sync <= set(group.members)
        assert group.leader_id is None or group.leader_id in group.members
        assert not members or group.leader_id is not None
        timers = self.driver.timers
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            assert not members
        if group.state is GroupState.PREPARING_REBALANCE:
            assert JoinTimer(group.group_id) in timers
        else:
            assert JoinTimer(group.group_id) not in timers
        if group.pending_sync:
            assert SyncTimer(group.group_id) in timers
        for member in members:
            assert member.joining is None or member.syncing is None
            if member.syncing is not None:
                assert group.state is GroupState.COMPLETING_REBALANCE
            if member.is_expected_to_heartbeat:
                assert SessionTimer(group.group_id, member.member_id) in timers
        for member_id in group.pending_members:
            assert SessionTimer(group.group_id, member_id) in timers
        for key in timers:
            if isinstance(key, SessionTimer) and key.group_id == group.group_id:
                assert key.member_id in group.members or key.member_id in group.pending_members
        if group.state is GroupState.STABLE and not self.driver.is_anything_in_flight:
            assert group.stored is not None and group.stored.generation == group.generation_id
            stored = {member.member_id: member.assignment for member in group.stored.members}
            assert stored == {member.member_id: member.assignment for member in members}

    def teardown(self) -> None:
        """Left alone, every group comes to rest: all members expire, every parked request has been answered."""
        self.perform("release")
        for _ in range(6):
            self.perform("advance 10m")
        for group in self.driver.shard._groups:
            assert group.state is GroupState.EMPTY
            assert not group.pending_members
            assert not group.offsets._pending and not group.offsets._pending_transactional
            assert not group.offsets._removals
        assert self.driver.waiting.used_bytes == 0
        assert set(self.driver.answered) == self.waiters


GroupMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGroupMachine = GroupMachine.TestCase

"""Any history of members, topics, share coordinators, administrators, failures and reloads: a partition is assigned only when
its state is kept, epochs only grow, no state is asked for twice in one epoch, a reload yields what is stored, and in the end
every partition that is read has a member.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.group.assigned import targets
from coordinator.group.assigned.assignor import run_all
from coordinator.group.assigned.entries import EntryKey, Target
from coordinator.group.assigned.entry_records import record_of
from coordinator.group.assigned.targets import ComputedTarget, ComputeTarget
from coordinator.group.share.administration import PlannedDeletion
from coordinator.group.share.group import ShareGroup, ShareGroupState
from coordinator.group.share.state_keeping import InitializedShareStates, InitializeShareStates, Place
from protocol.errors import ErrorCode
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.share.members import ShareMember, image, topic_id

NAMES = ("a", "b", "c", "d")
TOPICS = ("t", "u")
SUBSCRIPTIONS = (["t"], ["t", "u"], ["u"])
INLINE_MAX = 6  # larger groups are computed outside

names = st.sampled_from(NAMES)


class ShareGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = GroupDriver()
        self.sizes: dict[str, int] = {}
        self.largest: dict[str, int] = {}
        self.members = {name: ShareMember(self.driver, name, ["t"]) for name in NAMES}
        self.present: set[str] = set()  # those that believe to be members
        self.waiting: dict[str, str] = {}  # name -> the waiter of its heartbeat
        self.kept: set[Place] = set()  # the states that the share coordinator keeps
        self.asked: dict[Place, int] = {}  # the last epoch in which each was asked for
        self.deletions: list[PlannedDeletion] = []  # those under way
        self.patched = patch.object(targets, "INLINE_MAX", INLINE_MAX)
        self.patched.start()

    @initialize()
    def begin(self) -> None:
        self.sizes, self.largest = {"t": 3}, {"t": 3}
        self.driver.change_topics(image(**self.sizes))

    # --- what happens ---

    @rule(name=names, topics=st.sampled_from(SUBSCRIPTIONS))
    def join(self, name: str, topics: list[str]) -> None:
        member = self.members[name]
        if name not in self.waiting:
            member.topics, member.epoch, member.assigned = topics, 0, {}
            self.present.discard(name)
            self._start(member, subscribed_topic_names=topics)

    @rule(name=names)
    def beat(self, name: str) -> None:
        if name in self.present and name not in self.waiting:
            self._start(self.members[name])

    @rule(name=names, topics=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, name: str, topics: list[str]) -> None:
        if name in self.present and name not in self.waiting:
            self.members[name].topics = topics
            self._start(self.members[name], subscribed_topic_names=topics)

    @rule(name=names)
    def leave(self, name: str) -> None:
        if name in self.present and name not in self.waiting:
            self.present.discard(name)
            self._start(self.members[name], member_epoch=-1)

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(0, 5))
    def change_topic(self, topic: str, partitions: int) -> None:
        """A topic comes back as it was, or larger: it keeps its id here. The share coordinator forgets what is deleted."""
        if partitions:
            self.sizes[topic] = self.largest[topic] = max(partitions, self.largest.get(topic, 0))
        elif self.sizes.pop(topic, None) and self.driver.refuse_with is None:
            self.kept = {place for place in self.kept if place[0] != topic_id(topic)}
        else:
            return
        self.driver.change_topics(image(**self.sizes))

    @rule(duration_ms=st.sampled_from([500, 1_000, 10_000, 31_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.driver.advance(duration_ms)
        self._take()

    @rule(error=st.sampled_from([None, None, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def appends_are_refused(self, error: ErrorCode | None) -> None:
        self.driver.refuse_with = error

    @rule(is_holding=st.booleans())
    def commits_wait(self, is_holding: bool) -> None:
        self.driver.is_holding = is_holding
        if not is_holding:
            self.driver.release()
            self._take()

    @rule(is_answered=st.booleans(), fails=st.booleans())
    def carry_out(self, is_answered: bool = True, fails: bool = False) -> None:
        commands, self.driver.commands = self.driver.commands, []
        for command in commands:
            match command:
                case ComputeTarget():
                    self._compute(command)
                case InitializeShareStates():
                    self._initialize(command, is_answered=is_answered, fails=fails)
        self._take()

    def _compute(self, command: ComputeTarget) -> None:
        computation = command.computation
        assignment = run_all(computation.steps())
        records = {
            member_id: record_of(EntryKey(command.kind, "g", member_id), Target(share))
            for member_id, share in assignment.items()
            if share is not computation.members[member_id].owned
        }
        computed = ComputedTarget("g", command.kind, command.epoch, computation.assignor_name, assignment, records)
        self.driver.do(lambda shard, now_ms: shard.on_target_computed(computed, now_ms))

    def _initialize(self, command: InitializeShareStates, *, is_answered: bool, fails: bool) -> None:
        outcomes = {}
        for row in command.rows:
            place = row.topic_id, row.partition
            assert row.state_epoch > self.asked.get(place, 0), "a request that comes late is of an older epoch"
            self.asked[place] = row.state_epoch
            outcomes[place] = ErrorCode.NOT_COORDINATOR if fails and row.partition % 2 else ErrorCode.NONE
            if outcomes[place] is ErrorCode.NONE:
                self.kept.add(place)
        if is_answered:
            outcome = InitializedShareStates("g", outcomes)
            self.driver.do(lambda shard, now_ms: shard.on_share_states_initialized(outcome, now_ms))

    @precondition(lambda self: not self.driver.is_holding)
    @rule(topics=st.sampled_from((["t"], ["u"], None)))
    def delete(self, topics: list[str] | None) -> None:
        """An administrator deletes offsets of topics, or all of them before the group is deleted."""
        self.driver.do(lambda shard, now_ms: shard.plan_share_deletion("g", topics, "admin", now_ms))
        for waiter, response in self.driver.responses:
            if waiter == "admin" and isinstance(response, PlannedDeletion) and response.rows:
                self.deletions.append(response)
                self.kept -= set(response.rows)
        self._take()

    @precondition(lambda self: self.deletions)
    @rule(done=st.booleans())
    def finish_deletion(self, done: bool) -> None:
        plan = self.deletions.pop()
        asked = tuple(plan.topics)
        self.driver.do(
            lambda shard, now_ms: shard.finish_share_deletion("g", asked, asked if done else (), "admin", now_ms)
        )
        self._take()

    @precondition(lambda self: not self.driver.is_holding)
    @rule()
    def reload(self) -> None:
        self.driver.reload()
        self.driver.commands.clear()
        self._take()

    # --- clients ---

    def _start(self, member: ShareMember, **fields: object) -> None:
        self.waiting[member.member_id] = member.start(**fields)
        self._take()

    def _take(self) -> None:
        for waiter, response in self.driver.responses:
            name = str(waiter).split()[0]
            if self.waiting.get(name) != waiter:
                continue
            del self.waiting[name]
            assert isinstance(response, ShareGroupHeartbeatResponse)
            member = self.members[name]
            if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.present.discard(name)
                member.assigned = {}
            elif not response.error_code and response.member_epoch > 0:
                if name in self.present:
                    assert response.member_epoch >= member.epoch, "the epoch of a member only grows"
                member.take(response)
                self.present.add(name)
        self.driver.responses.clear()

    # --- what always holds ---

    @property
    def group(self) -> ShareGroup | None:
        found = self.driver.shard._groups.find("g")
        return found if isinstance(found, ShareGroup) else None

    @invariant()
    def what_is_assigned_anew_has_a_state(self) -> None:
        group = self.group
        if group is None:
            return
        entry = group.partitions
        assert set(entry.names) == {*entry.initializing, *entry.initialized, *entry.deleting}
        assert not entry.deleting & {*entry.initializing, *entry.initialized}
        if self.driver.is_holding or self.driver.refuse_with is not None or self.deletions:
            return
        initialized = {(each, index) for each, of_topic in entry.initialized.items() for index in of_topic}
        assert initialized <= self.kept

    @rule()
    def what_is_committed_is_what_a_reload_yields(self) -> None:
        if not self.driver.is_anything_in_flight:
            assert self.driver.loaded_again().durable_state() == self.driver.shard.durable_state()

    def teardown(self) -> None:
        """Left alone, with members that heartbeat, the group comes to rest."""
        try:
            self._come_to_rest()
        finally:
            self.patched.stop()

    def _come_to_rest(self) -> None:
        self.driver.refuse_with = None
        self.commits_wait(False)
        while self.deletions:
            self.finish_deletion(True)
        for _ in range(20):
            self.carry_out(True, False)
            self.driver.advance(5_000)
            for name in sorted(self.present):
                self.beat(name)
        group = self.group
        if group is None or not group.subscriptions:
            return
        assert group.state is ShareGroupState.STABLE
        assert group.epoch == group.target_epoch, "it has stopped to change"
        for topic, size in self.sizes.items():
            if group.is_subscribed_to(topic):
                assigned = [self.members[name].partitions(topic) for name in self.present]
                assert set().union(*assigned) == set(range(size))


ShareGroupMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestShareGroupMachine = ShareGroupMachine.TestCase

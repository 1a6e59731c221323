"""Any history of members, topics, failures and reloads: no partition is owned twice, epochs only grow, and in the end every
member has its share."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.group.assigned import targets
from coordinator.group.assigned.assignor import run_all
from coordinator.group.assigned.entries import EntryKey, EntryKind, Target
from coordinator.group.assigned.entry_records import record_of
from coordinator.group.assigned.targets import ComputedTarget, ComputeTarget
from coordinator.group.consumer.expressions import ResolvedExpressions, ResolveExpressions
from coordinator.group.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.group.consumer.patterns import resolve
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.coordinator.driver import GroupDriver
from tests.coordinator.group.consumer.members import GroupMember, image, topic_id

NAMES = ("a", "b", "c", "d")
TOPICS = ("t1", "t2", "u")
SUBSCRIPTIONS = (["t1"], ["t1", "t2"], ["u"], [])
EXPRESSIONS = (None, "t.*", "u|t1")
INLINE_MAX = 6  # larger groups are computed outside

names = st.sampled_from(NAMES)


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = GroupDriver()
        self.sizes: dict[str, int] = {}
        self.largest: dict[str, int] = {}
        self.members = {name: GroupMember(self.driver, name, ["t1"]) for name in NAMES}
        self.members["d"].instance_id = "static"
        self.present: set[str] = set()  # those that believe to be members
        self.waiting: dict[str, str] = {}  # name -> the waiter of its heartbeat
        self.unsure: set[str] = set()  # those whose last heartbeat was not answered
        self.patched = patch.object(targets, "INLINE_MAX", INLINE_MAX)
        self.patched.start()

    @initialize()
    def begin(self) -> None:
        self.sizes, self.largest = {"t1": 3}, {"t1": 3}
        self.driver.change_topics(image(**self.sizes))

    # --- what happens ---

    @rule(name=names, topics=st.sampled_from(SUBSCRIPTIONS), regex=st.sampled_from(EXPRESSIONS))
    def join(self, name: str, topics: list[str], regex: str | None) -> None:
        member = self.members[name]
        if name in self.waiting:
            return
        member.topics, member.regex = topics, regex
        member.epoch, member.owned = 0, {}
        self.present.discard(name)
        self._start(
            member,
            rebalance_timeout_ms=20_000,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )

    @rule(name=names, is_answered=st.booleans())
    def beat(self, name: str, is_answered: bool) -> None:
        member = self.members[name]
        if name in self.present and name not in self.waiting:
            self._start(member, topic_partitions=member._rows(), is_answered=is_answered)

    @rule(name=names)
    def short_beat(self, name: str) -> None:
        if name in self.present and name not in self.waiting:
            self._start(self.members[name])

    @rule(name=names, topics=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, name: str, topics: list[str]) -> None:
        member = self.members[name]
        if name in self.present and name not in self.waiting:
            member.topics = topics
            self._start(member, subscribed_topic_names=topics, topic_partitions=member._rows())

    @rule(name=names, is_static=st.booleans())
    def leave(self, name: str, is_static: bool) -> None:
        member = self.members[name]
        if name in self.present and name not in self.waiting:
            self.present.discard(name)
            member.owned = {}
            self._start(member, member_epoch=-2 if is_static and member.instance_id else -1)

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(0, 5))
    def change_topic(self, topic: str, partitions: int) -> None:
        """A topic comes back as it was, or larger: it keeps its id here."""
        if partitions:
            self.sizes[topic] = self.largest[topic] = max(partitions, self.largest.get(topic, 0))
        else:
            self.sizes.pop(topic, None)
        self.driver.change_topics(image(**self.sizes))

    @rule(duration_ms=st.sampled_from([500, 1_000, 10_000, 25_000]))
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

    @rule()
    def carry_out(self) -> None:
        commands, self.driver.commands = self.driver.commands, []
        for command in commands:
            match command:
                case ComputeTarget():
                    computation = command.computation
                    assignment = run_all(computation.steps())
                    records = {
                        member_id: record_of(EntryKey(EntryKind.TARGET, "g", member_id), Target(share))
                        for member_id, share in assignment.items()
                        if share is not computation.members[member_id].owned
                    }
                    computed = ComputedTarget(
                        "g", command.kind, command.epoch, computation.assignor_name, assignment, records
                    )
                    self.driver.do(lambda shard, now_ms, computed=computed: shard.on_target_computed(computed, now_ms))
                case ResolveExpressions():
                    outcome = ResolvedExpressions("g", resolve(command.expressions, self.sizes), command.version)
                    self.driver.do(
                        lambda shard, now_ms, outcome=outcome: shard.on_expressions_resolved(outcome, now_ms)
                    )
        self._take()

    @precondition(lambda self: not self.driver.is_holding)
    @rule()
    def reload(self) -> None:
        self.driver.reload()
        self._take()

    # --- clients ---

    def _start(self, member: GroupMember, *, is_answered: bool = True, **fields: object) -> None:
        """A member tells everything again when it got no answer."""
        if member.member_id in self.unsure and "member_epoch" not in fields and member.epoch:
            everything = {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": member.topics}
            fields = {**everything, "topic_partitions": member._rows(), **fields}
        self.unsure.discard(member.member_id)
        waiter = member.start(**fields)
        if is_answered:
            self.waiting[member.member_id] = waiter
        else:
            self.unsure.add(member.member_id)
        self._take()

    def _take(self) -> None:
        """Members do at once what they are told."""
        for waiter, response in self.driver.responses:
            name = str(waiter).split()[0]
            if self.waiting.get(name) != waiter:
                continue
            del self.waiting[name]
            if response.error_code:
                self.unsure.add(name)
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            member = self.members[name]
            if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.present.discard(name)
                member.owned = {}
            elif not response.error_code and response.member_epoch > 0:
                if name in self.present:
                    assert response.member_epoch >= member.epoch, "the epoch of a member only grows"
                member.take(response)
                self.present.add(name)
        self.driver.responses.clear()

    # --- what always holds ---

    @property
    def group(self) -> ConsumerGroup | None:
        found = self.driver.shard._groups.find("g")
        return found if isinstance(found, ConsumerGroup) else None

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        if self.group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, current in self.group.currents.items():
            for partitions in (current.assigned, current.pending_revocation):
                for each, of_topic in partitions.items():
                    for partition in of_topic:
                        assert owners.setdefault((each, partition), member_id) == member_id
        indexed = {(each, index): owner for each, row in self.group.owners.items() for index, owner in row.items()}
        assert owners == indexed

    @invariant()
    def no_two_members_believe_to_own_a_partition(self) -> None:
        if self.group is None:
            return
        believed: dict[tuple[bytes, int], str] = {}
        for name in self.present & self.group.subscriptions.keys():
            for each, partitions in self.members[name].owned.items():
                for partition in partitions:
                    assert believed.setdefault((each, partition), name) == name

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
        for _ in range(25):
            self.carry_out()
            self.driver.advance(5_000)
            for name in sorted(self.present):
                self.beat(name, True)
        group = self.group
        if group is None or not group.subscriptions:
            return
        assert group.state is ConsumerGroupState.STABLE
        for topic, size in self.sizes.items():
            if group.is_subscribed_to(topic):
                owned = [self.members[name].owned.get(topic_id(topic), set()) for name in self.present]
                assert sorted(partition for each in owned for partition in each) == list(range(size))


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestConsumerGroupMachine = ConsumerGroupMachine.TestCase

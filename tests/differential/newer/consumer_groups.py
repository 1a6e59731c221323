"""ConsumerGroupHeartbeat: members join, share partitions, are fenced and leave."""

from __future__ import annotations

import itertools
from typing import Any

from coordinator.runtime.partitioner import partition_for
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.differential.internal_topics import PARTITIONS
from tests.differential.play import Run, newer_case

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
"""Epochs with which a member leaves: for good, or as a static member that comes back."""


def owning(owned: dict[bytes, list[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in owned.items()]


def beating(group: str, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that reports nothing new, but for `fields`."""
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)


def joining(group: str, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A first heartbeat. Up to version 0 the coordinator makes the member's id, unless `member_id` has one."""
    values: dict[str, Any] = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": list(topics),
        "topic_partitions": [],
    }
    return beating(group, member_id, 0, **{**values, **fields})


def told(answer: Any) -> dict[bytes, list[int]] | None:
    """The partitions of an answer's assignment; None when it tells of none."""
    if answer.assignment is None:
        return None
    return {row.topic_id: sorted(row.partitions) for row in answer.assignment.topic_partitions}


def group_that_knows(run: Run, *topics: str, short: str = "g") -> str:
    """A group id whose coordinator has heard of the topics: it does so a moment after they are made. It is asked by members
    of a group of another name in the same partition of `__consumer_offsets`."""
    group = run.group(short)
    partition = partition_for(group, PARTITIONS)
    names = (f"{group}-before{number}" for number in itertools.count())
    other = next(name for name in names if partition_for(name, PARTITIONS) == partition)
    tries = itertools.count()

    def are_assigned() -> bool:
        member = f"member-{next(tries)}"
        answer = run.do(joining(other, member, *topics), 1)
        run.do(beating(other, member, LEAVE), 1)
        return len(told(answer) or {}) == len(topics)

    run.until("the coordinator knows the topics", are_assigned)
    return group


class Member:
    """A member that does what the coordinator tells it. `ask` keeps the answer, `do` only obeys."""

    def __init__(self, run: Run, group: str, short: str, *topics: str, **fields: Any) -> None:
        self.run = run
        self.group = group
        self.topics = topics
        self.fields = fields
        self.member_id = run.name(short)
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        is_asked = run.case.api is ConsumerGroupHeartbeatRequest
        self.version = run.version if is_asked else ConsumerGroupHeartbeatRequest.max_version

    def request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        if self.epoch == 0:
            return joining(self.group, self.member_id, *self.topics, **self.fields)
        return beating(self.group, self.member_id, self.epoch, **{"topic_partitions": owning(self.owned), **fields})

    def ask(self, **fields: Any) -> Any:
        return self._obey(self.run.ask(self.request(**fields), self.version))

    def do(self) -> Any:
        return self._obey(self.run.do(self.request(), self.version))

    def _obey(self, answer: Any) -> Any:
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        self.epoch = answer.member_epoch
        assigned = told(answer)
        if assigned is not None:
            self.owned = assigned
        return answer


def settle(*members: Member) -> None:
    """Beat until every member has the same epoch and no answer tells anything new, twice in a row."""
    for _ in range(20):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            member.do()
        after = [(member.epoch, member.owned) for member in members]
        if before == after and len({member.epoch for member in members}) == 1:
            return
    raise AssertionError(f"the group does not settle: {after}")


@newer_case(ConsumerGroupHeartbeatRequest)
def a_member_joins_beats_and_leaves(run: Run) -> None:
    topic = run.topic(partitions=3)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    member.ask()
    member.ask()
    run.ask(beating(group, member.member_id, member.epoch))
    run.ask(beating(group, member.member_id, LEAVE))
    run.ask(beating(group, member.member_id, LEAVE))
    run.ask(beating(group, member.member_id, member.epoch))


@newer_case(ConsumerGroupHeartbeatRequest)
def a_member_without_an_id(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    answer = run.ask(joining(group, "", topic))
    if answer.error_code == 0:
        run.ask(beating(group, answer.member_id, answer.member_epoch))


@newer_case(ConsumerGroupHeartbeatRequest)
def a_second_member_takes_its_share(run: Run) -> None:
    topic = run.topic(partitions=4)
    group = group_that_knows(run, topic)
    first, second = Member(run, group, "m1", topic), Member(run, group, "m2", topic)
    first.ask()
    second.ask()  # waits for what the first one gives back
    first.ask()
    second.ask()
    run.ask(beating(group, first.member_id, first.epoch, topic_partitions=owning(first.owned)))
    second.ask()
    run.ask(beating(group, first.member_id, LEAVE))
    second.ask()
    second.ask()


@newer_case(ConsumerGroupHeartbeatRequest)
def topics_that_are_not_there_yet(run: Run) -> None:
    group = run.group()
    member = Member(run, group, "m", run.name("t"), run.name("u"))
    member.ask()
    run.topic("t", partitions=2)
    run.until("the topic is assigned", lambda: bool(told(member.do())))
    run.note({"epoch": member.epoch, "partitions": list(member.owned.values())})


@newer_case(ConsumerGroupHeartbeatRequest)
def another_subscription(run: Run) -> None:
    one, two = run.topic("one", 2), run.topic("two")
    group = group_that_knows(run, one, two)
    member = Member(run, group, "m", one)
    settle(member)
    member.ask(subscribed_topic_names=[one, two])
    member.ask()
    member.ask(subscribed_topic_names=[two])
    member.ask()
    member.ask()
    member.ask(subscribed_topic_names=[])
    member.ask()


@newer_case(ConsumerGroupHeartbeatRequest)
def assignors(run: Run) -> None:
    topic = run.topic(partitions=3)
    for number, assignor in enumerate(("range", "uniform", "nobody", "", "Range")):
        group = group_that_knows(run, topic, short=f"g{number}")
        run.ask(joining(group, run.name("m"), topic, server_assignor=assignor))
    group = group_that_knows(run, topic)
    first = Member(run, group, "m1", topic, server_assignor="range")
    settle(first)
    run.ask(joining(group, run.name("m2"), topic, server_assignor="uniform"))
    run.ask(beating(group, first.member_id, first.epoch, server_assignor="nobody"))
    run.ask(beating(group, first.member_id, first.epoch, server_assignor="uniform"))


@newer_case(ConsumerGroupHeartbeatRequest)
def static_members(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    first = Member(run, group, "m1", topic, instance_id="one")
    first.ask()
    other = run.name("m2")
    run.ask(joining(group, other, topic, instance_id="one"))
    run.ask(beating(group, first.member_id, LEAVE_FOR_A_WHILE, instance_id="one"))
    run.ask(joining(group, other, topic, instance_id="one"))
    run.ask(beating(group, first.member_id, first.epoch, instance_id="one"))
    run.ask(beating(group, other, first.epoch, instance_id="two"))
    run.ask(beating(group, other, LEAVE_FOR_A_WHILE))
    run.ask(beating(group, other, LEAVE, instance_id="one"))
    run.ask(joining(group, run.name("m3"), topic, instance_id="one"))


@newer_case(ConsumerGroupHeartbeatRequest)
def epochs_that_are_not_the_members(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    for epoch in (member.epoch + 1, member.epoch - 1, 1 << 30, 0x7FFFFFFF, -3, -0x80000000):
        run.ask(beating(group, member.member_id, epoch))
    run.ask(beating(group, run.name("nobody"), member.epoch))
    run.ask(beating(group, run.name("nobody"), LEAVE))
    run.ask(beating(run.name("never"), run.name("nobody"), 1))
    run.ask(beating(run.name("never"), run.name("nobody"), LEAVE))


@newer_case(ConsumerGroupHeartbeatRequest)
def the_epoch_of_before(run: Run) -> None:
    """An answer was lost: the member still has the epoch of before, and what it owned then."""
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    before, owned = member.epoch, member.owned
    other = Member(run, group, "m2", topic)
    other.do()
    run.ask(beating(group, member.member_id, before, topic_partitions=owning(owned)))
    run.ask(beating(group, member.member_id, before, topic_partitions=owning(owned)))
    kept = {topic_id: partitions[:1] for topic_id, partitions in owned.items()}
    run.ask(beating(group, member.member_id, before, topic_partitions=owning(kept)))
    run.ask(beating(group, member.member_id, before, topic_partitions=owning(kept)))
    run.ask(beating(group, member.member_id, before, topic_partitions=owning(owned)))
    run.ask(beating(group, member.member_id, before))
    run.ask(joining(group, member.member_id, topic))


@newer_case(ConsumerGroupHeartbeatRequest)
def requests_that_are_not_allowed(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = run.name("m")
    run.ask(joining("", member, topic))
    run.ask(joining(" ", member, topic))
    run.ask(joining(group, "", topic))
    run.ask(joining(group, " ", topic))
    run.ask(joining(group, member, topic, instance_id=""))
    run.ask(joining(group, member, topic, rack_id=""))
    run.ask(joining(group, member, topic, rebalance_timeout_ms=-1))
    run.ask(joining(group, member, topic, rebalance_timeout_ms=0))
    run.ask(joining(group, member, topic, rebalance_timeout_ms=-5))
    run.ask(joining(group, member, topic, rebalance_timeout_ms=-(2**31)))
    run.ask(joining(group, member, topic, topic_partitions=None))
    run.ask(joining(group, member, topic, topic_partitions=owning({run.last_topic_id: [0]})))
    run.ask(joining(group, member, topic, subscribed_topic_names=None))
    run.ask(joining(group, member, topic, subscribed_topic_names=[""]))
    run.ask(joining(group, member, topic, subscribed_topic_names=["not a name"]))
    run.ask(joining(group, member, topic, subscribed_topic_names=[topic, topic]))
    run.ask(beating(group, "", 1))
    run.ask(beating(group, "", LEAVE))
    run.ask(beating(group, member, LEAVE_FOR_A_WHILE))
    run.ask(beating(group, member, 1, instance_id=""))
    run.ask(beating(group, member, 1, rack_id=""))
    run.ask(beating(group, member, 1, subscribed_topic_names=[]))
    run.ask(beating(group, member, 1, topic_partitions=owning({bytes(15) + b"x": [0]})))


@newer_case(ConsumerGroupHeartbeatRequest)
def a_member_that_reports_what_it_does_not_own(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    topic_id = run.last_topic_id
    run.ask(beating(group, member.member_id, member.epoch, topic_partitions=owning({topic_id: [0, 1, 7]})))
    run.ask(beating(group, member.member_id, member.epoch, topic_partitions=owning({bytes(15) + b"x": [0]})))
    run.ask(beating(group, member.member_id, member.epoch, topic_partitions=owning({topic_id: [0]})))
    run.ask(beating(group, member.member_id, member.epoch, topic_partitions=owning({topic_id: [0, 0]})))
    run.ask(beating(group, member.member_id, member.epoch, topic_partitions=[]))


@newer_case(ConsumerGroupHeartbeatRequest)
def more_members_than_allowed(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    for number in range(4):
        run.do(joining(group, run.name(f"m{number}"), topic), run.version)
    run.ask(joining(group, run.name("m4"), topic))


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def regular_expressions(run: Run) -> None:
    topics = run.topic("a1", 2), run.topic("a2"), run.topic("b")
    group = group_that_knows(run, *topics)
    pattern = f"{run.prefix}a.*"
    member = Member(run, group, "m", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    member.ask()
    run.until("the topics are assigned", lambda: len(told(member.do()) or {}) == 2)
    run.note({"epoch": member.epoch, "partitions": sorted(map(len, member.owned.values()))})
    member.ask()
    member.ask(subscribed_topic_regex=f"{run.prefix}b")
    run.until("the other topic is assigned", lambda: told(member.do()) == {run.last_topic_id: [0]})
    run.note({"epoch": member.epoch})
    member.ask(subscribed_topic_regex="")
    member.ask()


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def expressions_that_are_none(run: Run) -> None:
    group = run.group()
    for pattern in ("[", "(a", "a**", "(?<=a)b", "a{1001}", "\\1", ""):
        run.ask(joining(group, run.name("m"), subscribed_topic_names=None, subscribed_topic_regex=pattern))
    member = Member(run, group, "m1", run.topic())
    settle(member)
    run.ask(beating(group, member.member_id, member.epoch, subscribed_topic_regex="["))

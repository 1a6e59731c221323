"""The language of `tests/scenarios/groups/*.txt`, and its interpreter.

A scenario is commands, each followed by what it led to, indented by two spaces: answers, log appends, events, and the
groups whose shape changed. REWRITE_SCENARIOS=1 writes what happens now; commit such a change only when you understand it.

    join a v=9 instance=i1     JoinGroup of client a; its member id is remembered and sent from then on
    sync a assign=a:x,b:y      SyncGroup; without `assign` as a follower
    heartbeat a | leave a ...  also gen=, member=, instance= to say something else than what a client knows
    commit a t-0=5 gen=1       OffsetCommit (`commit - t-0=5` for a simple consumer)
    txn-commit - t-0=5 producer=7   TxnOffsetCommit; `txn-commit a t-0=5 producer=7` as a member
    end producer=7 commit|abort     the marker of the producer's transaction
    fetch [t-0 ...]            OffsetFetch, all without a list; stable=yes
    describe | list | delete | delete-offsets t-0 ... | expire | topics-gone t-0 ...
    advance 300ms|3s|2h|7d     virtual time
    hold | release | fail ERROR | time-out | refuse ERROR | accept     the fate of appends
    reload | unload            the leadership goes (and comes back)
    waiting                    the bytes of requests that wait for their groups
    setting name=value         of GroupSettings; the shard is loaded again with it
Every command takes group=; the group is `g` otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator.group.classic.member_join import Join
from coordinator.group.events import (
    AppendFailed,
    AssignmentReceived,
    GroupRemoved,
    MemberFenced,
    MembersRemoved,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceStarted,
    RecordSkipped,
    WaitingMemoryFull,
)
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import GroupKey, OffsetKey, read_group_value, read_key, read_offset_value
from coordinator.group.settings import GroupSettings
from coordinator.runtime.contract import BatchProducer, CoordinatorRecord, ShardEvent
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.schema import Message
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from protocol.topic_partition import TopicPartition
from tests.coordinator.driver import START_MS, Batch, GroupDriver, Marker

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    assert match, f"not a duration: {text}"
    return int(match[1]) * _UNITS[match[2]]


def place(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def subscription(topics: str) -> bytes:
    """Consumer metadata for "t+u"; text in quotes is taken as it is."""
    if topics.startswith("'"):
        return topics.strip("'").encode()
    return ConsumerProtocolSubscription(topics=[t for t in topics.split("+") if t]).encode_stored(0)


@dataclass
class Client:
    member_id: str = ""
    generation_id: int = -1


@dataclass
class Scenario:
    """One run. `perform` takes a command line and returns what it led to."""

    driver: GroupDriver = field(default_factory=GroupDriver)
    clients: dict[str, Client] = field(default_factory=dict)
    ids_given: int = 0
    # Makes the names of waiters unique where that matters.
    waiter_suffix: str = ""

    def perform(self, line: str) -> list[str]:
        verb, *words = line.split()
        options = dict(word.split("=", 1) for word in words if re.match(r"[a-z]+=", word))
        plain = [word for word in words if not re.match(r"[a-z]+=", word)]
        before = self._shapes()
        log_length = len(self.driver.log)
        lines = getattr(self, "do_" + verb.replace("-", "_"))(plain, options) or []
        lines += [self._answer(str(waiter), response) for waiter, response in self.driver.responses]
        lines += [shown for event in self.driver.events if (shown := _event(event))]
        self.driver.responses.clear()
        self.driver.events.clear()
        for batch in self.driver.log[log_length:]:
            lines.append("log: " + _entry(batch))
        after = self._shapes()
        lines += [f"{group_id}: {shape}" for group_id, shape in after.items() if before.get(group_id) != shape]
        lines += [f"{group_id}: gone" for group_id in before if group_id not in after]
        assert self.driver.loaded_again().durable_state() == self.driver.shard.durable_state(), "replay differs"
        return lines

    # --- membership ---

    def do_join(self, plain: list[str], options: dict[str, str]) -> None:
        (name,) = plain
        client = self.clients.setdefault(name, Client())
        protocols = [entry.partition(":") for entry in options.get("protocols", "range:t").split(",") if entry]
        request = JoinGroupRequest(
            group_id=options.get("group", "g"),
            session_timeout_ms=duration_ms(options.get("session", "10s")),
            rebalance_timeout_ms=duration_ms(options.get("rebalance", "60s")),
            member_id=options.get("member", client.member_id).replace("?", ""),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer").strip("'"),
            protocols=[JoinGroupRequestProtocol(name=n, metadata=subscription(topics)) for n, _, topics in protocols],
            reason=options.get("reason"),
        )
        self.ids_given += 1
        join = Join(
            request,
            int(options.get("v", "3")),
            name,
            "/10.0.0.1",
            str(self.ids_given),
            f"{name} join{self.waiter_suffix}",
        )
        self.driver.do(lambda shard, now_ms: shard.join(join, now_ms))

    def do_sync(self, plain: list[str], options: dict[str, str]) -> None:
        (name,) = plain
        client = self.clients[name]
        assignments = [entry.split(":") for entry in options.get("assign", "").split(",") if entry]
        request = SyncGroupRequest(
            group_id=options.get("group", "g"),
            generation_id=int(options.get("gen", client.generation_id)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.clients[who].member_id if who in self.clients else who, assignment=what.encode()
                )
                for who, what in assignments
            ],
        )
        self.driver.do(lambda shard, now_ms: shard.sync(request, f"{name} sync{self.waiter_suffix}", now_ms))

    def do_heartbeat(self, plain: list[str], options: dict[str, str]) -> list[str]:
        (name,) = plain
        client = self.clients.get(name, Client())
        request = HeartbeatRequest(
            group_id=options.get("group", "g"),
            generation_id=int(options.get("gen", client.generation_id)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance"),
        )
        error, effects = self.driver.shard.heartbeat(request, self.driver.now_ms)
        self.driver.carry_out(effects)
        return [f"{name} heartbeat: {error.name}"]

    def do_leave(self, plain: list[str], options: dict[str, str]) -> list[str]:
        instance = options.get("instance")
        leaving = [
            MemberIdentity(
                member_id=options.get("member", self.clients.get(name, Client()).member_id).replace("?", ""),
                group_instance_id=instance,
                reason=options.get("reason"),
            )
            for name in plain
        ]
        group_id = options.get("group", "g")
        response, effects = self.driver.shard.leave(group_id, leaving, self.driver.now_ms)
        self.driver.carry_out(effects)
        return [_left(response)]

    # --- offsets ---

    def do_commit(self, plain: list[str], options: dict[str, str]) -> None:
        name, *offsets = plain
        client = self.clients.get(name, Client())
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for entry in offsets:
            where, what = entry.split("=") if "=" in entry else (entry, "0")
            offset, _, metadata = what.partition(":")
            topic, partition = place(where)
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=int(offset),
                    committed_leader_epoch=int(options.get("epoch", "-1")),
                    commit_timestamp=int(options.get("timestamp", "-1")),
                    committed_metadata=None if metadata == "" else metadata * int(options.get("repeat", "1")),
                )
            )
        retention = options.get("retention")
        request = OffsetCommitRequest(
            group_id=options.get("group", "g").strip("'"),
            generation_id_or_member_epoch=int(options.get("gen", client.generation_id)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance"),
            retention_time_ms=-1 if retention is None else duration_ms(retention),
            topics=[OffsetCommitRequestTopic(name=t, partitions=rows) for t, rows in by_topic.items()],
        )
        self.driver.do(
            lambda shard, now_ms: shard.commit_offsets(request, f"{name} commit{self.waiter_suffix}", now_ms)
        )

    def do_txn_commit(self, plain: list[str], options: dict[str, str]) -> None:
        name, *offsets = plain
        client = self.clients.get(name, Client())
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for entry in offsets:
            where, what = entry.split("=")
            offset, _, metadata = what.partition(":")
            topic, partition = place(where)
            row = TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=int(offset),
                committed_metadata=None if metadata == "" else metadata * int(options.get("repeat", "1")),
            )
            by_topic.setdefault(topic, []).append(row)
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=options.get("group", "g"),
            producer_id=int(options.get("producer", "7")),
            producer_epoch=int(options.get("epoch", "0")),
            generation_id=int(options.get("gen", client.generation_id)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance"),
            topics=[TxnOffsetCommitRequestTopic(name=t, partitions=rows) for t, rows in by_topic.items()],
        )
        producer = BatchProducer(request.producer_id, request.producer_epoch)
        waiter = f"{name} txn-commit{self.waiter_suffix}"
        self.driver.do(lambda shard, now_ms: shard.commit_offsets_in_transaction(request, producer, waiter, now_ms))

    def do_end(self, plain: list[str], options: dict[str, str]) -> None:
        self.driver.end_transaction(int(options["producer"]), committed={"commit": True, "abort": False}[plain[0]])

    def do_fetch(self, plain: list[str], options: dict[str, str]) -> list[str]:
        topics: dict[str, list[int]] = {}
        for topic, partition in map(place, plain):
            topics.setdefault(topic, []).append(partition)
        wanted = OffsetFetchRequestGroup(
            group_id=options.get("group", "g").strip("'"),
            topics=[OffsetFetchRequestTopics(name=t, partition_indexes=rows) for t, rows in topics.items()]
            if plain
            else None,
        )
        found = self.driver.shard.fetch_offsets(wanted, require_stable="stable" in options)
        rows = [
            f"{topic}-{partition}={_told(offset)}"
            for topic, partitions in found.topic_partitions.items()
            for partition, offset in partitions.items()
        ]
        return ["fetched: " + (", ".join(rows) or "nothing")]

    def do_delete_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in map(place, plain):
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
        request = OffsetDeleteRequest(
            group_id=options.get("group", "g"),
            topics=[OffsetDeleteRequestTopic(name=t, partitions=rows) for t, rows in topics.items()],
        )
        self.driver.do(
            lambda shard, now_ms: shard.delete_offsets(request, f"delete-offsets{self.waiter_suffix}", now_ms)
        )

    def do_topics_gone(self, plain: list[str], _options: dict[str, str]) -> None:
        gone = [place(word) for word in plain]
        self.driver.do(lambda shard, now_ms: shard.on_partitions_deleted(gone, now_ms))

    def do_expire(self, _plain: list[str], _options: dict[str, str]) -> None:
        for group_id in self.driver.shard.group_ids():
            self.driver.carry_out(self.driver.shard.expire(group_id, self.driver.now_ms))

    # --- groups ---

    def do_delete(self, _plain: list[str], options: dict[str, str]) -> None:
        group_id = options.get("group", "g")
        self.driver.do(lambda shard, now_ms: shard.delete_group(group_id, f"delete{self.waiter_suffix}", now_ms))

    def do_describe(self, _plain: list[str], options: dict[str, str]) -> list[str]:
        group = self.driver.shard.describe(options.get("group", "g"))
        members = [
            f"{member.member_id}"
            + (f"({member.group_instance_id})" if member.group_instance_id is not None else "")
            + f" {member.client_id} {member.client_host} metadata={len(member.member_metadata)}"
            + f" assignment={member.member_assignment.decode()}"
            for member in group.members
        ]
        head = f"described: {ErrorCode(group.error_code).name} {group.group_state}"
        return [f"{head} type={group.protocol_type} protocol={group.protocol_data}", *members]

    def do_list(self, plain: list[str], options: dict[str, str]) -> list[str]:
        types = options["types"].split(",") if "types" in options else []
        return [
            f"listed: {group.group_id} {group.protocol_type or '-'} {group.group_state} {group.group_type}"
            for group in self.driver.shard.list_groups({state.lower() for state in plain}, types)
        ] or ["listed: nothing"]

    def do_waiting(self, _plain: list[str], _options: dict[str, str]) -> list[str]:
        return [f"waiting: {self.driver.waiting.used_bytes}"]

    # --- the world ---

    def do_setting(self, plain: list[str], _options: dict[str, str]) -> None:
        name, value = plain[0].split("=")
        self.driver.settings = replace(self.driver.settings, **{name: int(value)})
        self.driver.reload()

    def do_advance(self, plain: list[str], _options: dict[str, str]) -> None:
        self.driver.advance(duration_ms(plain[0]))

    def do_hold(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.is_holding = True

    def do_release(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.is_holding = False
        self.driver.release()

    def do_fail(self, plain: list[str], _options: dict[str, str]) -> None:
        self.driver.is_holding = False
        self.driver.fail(ErrorCode[plain[0]])

    def do_time_out(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.time_out()

    def do_refuse(self, plain: list[str], _options: dict[str, str]) -> None:
        self.driver.refuse_with = ErrorCode[plain[0]]

    def do_accept(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.refuse_with = None

    def do_reload(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.reload()

    def do_unload(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.driver.unload()

    # --- what is shown ---

    def _answer(self, waiter: str, response: Message) -> str:
        match response:
            case JoinGroupResponse():
                client = self.clients[waiter.split()[0]]
                if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    client.member_id, client.generation_id = response.member_id, response.generation_id
                return f"{waiter}: {_joined(response)}"
            case SyncGroupResponse():
                error = ErrorCode(response.error_code)
                if error is not ErrorCode.NONE:
                    return f"{waiter}: {error.name}"
                what = f"{response.protocol_type}/{response.protocol_name}"
                return f"{waiter}: NONE {what} assignment={response.assignment.decode()}"
            case OffsetCommitResponse() | TxnOffsetCommitResponse() | OffsetDeleteResponse():
                top = ErrorCode(getattr(response, "error_code", 0)).name
                rows = [
                    f"{topic.name}-{row.partition_index} {ErrorCode(row.error_code).name}"
                    for topic in response.topics
                    for row in topic.partitions
                ]
                return f"{waiter}: " + (", ".join(rows) or top)
            case DeletableGroupResult():
                return f"{waiter}: {ErrorCode(response.error_code).name}"
            case _:
                raise AssertionError(response)

    def _shapes(self) -> dict[str, str]:
        shapes = {}
        for group_id in self.driver.shard.group_ids():
            group = self.driver.shard.describe(group_id)
            members = ",".join(member.member_id for member in group.members) or "nobody"
            shapes[group_id or "''"] = f"{group.group_state} {members}"
        return shapes


def _told(found: CommittedOffset | ErrorCode | None) -> str:
    if not isinstance(found, CommittedOffset):
        return "-1" if found is None else f"-1 {found.name}"
    metadata = f":{found.metadata}" if found.metadata else ""
    epoch = f" epoch {found.leader_epoch}" if found.leader_epoch != -1 else ""
    return f"{found.offset}{metadata}{epoch}"


def _joined(response: JoinGroupResponse) -> str:
    error = ErrorCode(response.error_code)
    if error is not ErrorCode.NONE:
        generation = "" if response.generation_id == -1 else f" gen={response.generation_id}"
        return f"{error.name} member={response.member_id or '-'}{generation}"
    members = ",".join(
        member.member_id + (f"({member.group_instance_id})" if member.group_instance_id is not None else "")
        for member in response.members
    )
    return (
        f"NONE member={response.member_id} gen={response.generation_id} leader={response.leader}"
        f" {response.protocol_type}/{response.protocol_name}"
        + (f" members={members}" if members else "")
        + (" skip-assignment" if response.skip_assignment else "")
    )


def _left(response: LeaveGroupResponse) -> str:
    rows = [f"{row.member_id or row.group_instance_id} {ErrorCode(row.error_code).name}" for row in response.members]
    return "leave: " + (", ".join(rows) or ErrorCode(response.error_code).name)


def _event(event: ShardEvent) -> str | None:
    match event:
        case RebalanceStarted():
            detail = f" ({event.detail})" if event.detail else ""
            return f"rebalance started: {event.reason.value} {','.join(event.member_ids)}{detail}"
        case RebalanceCompleted():
            return f"rebalance completed: gen={event.generation_id} leader={event.leader_id}"
        case AssignmentReceived(missing=missing):
            return f"assignment leaves out {','.join(missing)}" if missing else None
        case MembersRemoved():
            return f"removed {','.join(event.member_ids)}: {event.why}"
        case MemberFenced():
            return f"fenced {event.member_id} of {event.group_instance_id}: now {event.current_member_id}"
        case OffsetsRemoved():
            return f"offsets removed: {event.count}{' expired' if event.expired else ''}"
        case GroupRemoved():
            return f"group removed: {event.group_id}"
        case WaitingMemoryFull():
            return f"new members refused: {event.used_bytes} bytes of {event.limit_bytes} wait"
        case AppendFailed() | RecordSkipped():
            return repr(event)
        case _:
            return None


def _entry(entry: Batch | Marker) -> str:
    if isinstance(entry, Marker):
        return f"{'commit' if entry.committed else 'abort'} of producer {entry.producer_id}"
    records = "; ".join(_record(record) for record in entry.records)
    return records if entry.producer is None else f"{records} (producer {entry.producer.producer_id})"


def _record(record: CoordinatorRecord) -> str:
    match read_key(record.key):
        case OffsetKey(group_id, (topic, partition)):
            if record.value is None:
                return f"{group_id} {topic}-{partition} removed"
            commit = read_offset_value(record.value)
            expiry = commit.expire_timestamp_ms
            return (
                f"{group_id} {topic}-{partition}={commit.offset} value v{int.from_bytes(record.value[:2], 'big')}"
                + (f" expires at {expiry - START_MS} ms" if expiry != -1 else "")
            )
        case GroupKey(group_id):
            if record.value is None:
                return f"{group_id} removed"
            value = read_group_value(record.value)
            members = [f"{member.member_id}:{member.assignment.decode()}" for member in value.members]
            return f"{group_id} gen={value.generation} leader={value.leader} [{' '.join(members)}]"
        case other:
            return repr(other)


def run(text: str) -> str:
    """The scenario with what happens now: equal to `text` when nothing changed."""
    scenario = Scenario(GroupDriver(GroupSettings()))
    lines = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += ["  " + shown for shown in scenario.perform(line)]
    return "\n".join(lines) + "\n"


def scenario_files() -> list[Path]:
    return sorted((Path(__file__).parent.parent / "scenarios" / "groups").glob("*.txt"))

"""A look at a cluster: asks all brokers side by side, and looks again at what might stand still.

    metadata -> answer times -> groups, disks, settings, reassignments -> commits -> ends, starts -> settings of topics
             -> open transactions
             -> what might stand still, again and again until it has moved or the window ends (tools.health.watching)

Rules: everything takes at most `limit_ms`. Commits are read before ends, so that no lag is negative. A cluster in which
nothing might stand still is told at once. Brokers read settings of topics from ZooKeeper, and one of Apache Kafka keeps a
thread waiting with each request while that does not answer: one topic is asked for first, of one broker, and when that is not
answered, looks that follow soon do not ask again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tools.health import answers
from tools.health.asking import Asking
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.settings import INTERNAL_REPLICAS
from tools.health.view import TOPIC_SETTINGS, BrokerView, ClusterView, GroupView, Key, LagView, PartitionView
from tools.health.watching import Watching
from tools.log_dirs_request import log_dirs_request

if TYPE_CHECKING:
    from runtime.clock import Clock

LIMIT_MS = 8_500
"""From the start of the command on: with that of the interpreter less than ten seconds."""
CONNECT_LIMIT_MS = 3_000
PROBE_LIMIT_MS = 2_000
STALLED_FOR_MS = 60_000
"""So long a broker is not asked again for settings of topics that has not told them."""
TOPICS_PER_REQUEST = 200
COMPARED_PARTITIONS = 5_000
"""In larger clusters brokers are not asked for all partitions to compare what they say."""
_DESCRIBED_TYPES = ("", None, "classic", "Classic")
"""As ListGroups tells the types of groups; brokers before 3.8 tell none."""
DESCRIBE_QUORUM = 55
"""The API that only brokers have whose controllers form a quorum."""


def look(
    requests: BrokerRequests,
    clock: Clock,
    window_ms: int,
    previous: ClusterView | None = None,
    *,
    limit_ms: int = LIMIT_MS,
    on_brokers: Callable[[Collection[BrokerView]], None] = lambda _: None,
) -> ClusterView:
    """Return what a look has shown; at most `window_ms` are spent on what might stand still. `previous` is what the look before
    has shown, if there was one. `limit_ms` is the time for everything. `on_brokers` is called with the brokers as soon as they
    are known with their settings. Raises Unreachable."""
    from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

    asking = Asking(requests, clock, limit_ms)
    first = requests.connect(MetadataRequest(topics=None), min(CONNECT_LIMIT_MS, asking.left_ms))
    metadata, brokers = _meet(asking, first)
    partitions = answers.partitions(metadata)
    controller = metadata.controller_id if metadata.controller_id >= 0 else None
    listed = asking.everybody("groups", answers.list_groups_request)
    brokers = _with_disks_and_settings(asking, brokers)
    on_brokers(brokers.values())
    view = ClusterView(
        brokers=brokers,
        controller=controller,
        partitions=partitions,
        cluster_id=metadata.cluster_id,
        has_controllers=requests.has_api(DESCRIBE_QUORUM),
        reassignments=_reassignments(asking, controller),
        absent=_absent(asking, partitions),
    )
    groups = _described_groups(asking, listed)
    led = leaders_of(asking, partitions)
    ends = _ends(asking, led, is_committed_only=False)
    groups = [group.with_ends(ends) for group in groups]
    starts = _starts(asking, led, {lag.key for group in groups for lag in group.lags if lag.lag})
    view = replace(view, groups=tuple(group.with_starts(starts) for group in groups))
    blocked = {key for key, end in _ends(asking, led, is_committed_only=True).items() if end < ends.get(key, end)}
    view = _with_topic_settings(asking, view, previous)
    view = Watching(asking, view, led).run(blocked, window_ms)
    return replace(view, stalls=(*view.stalls, *asking.stalls), unseen=tuple(asking.unseen), now_ms=clock.wall_ms())


def leaders_of(asking: Asking, partitions: tuple[PartitionView, ...]) -> dict[int, set[Key]]:
    """Return the partitions by leader, of leaders that answer."""
    led: dict[int, set[Key]] = defaultdict(set)
    for partition in partitions:
        if partition.leader in asking.answering:
            led[partition.leader].add(partition.key)
    return led


def _meet(asking: Asking, first: Any) -> tuple[Any, dict[int, BrokerView]]:
    """Measure how fast the brokers answer and hear what they say of the cluster. Returns what the controller says, if it
    answers, and the brokers."""
    from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

    known = {broker.node_id: broker for broker in first.brokers}
    limit_ms = min(PROBE_LIMIT_MS, asking.left_ms)
    times = asking.requests.probe(list(known), limit_ms)
    asking.answering = {broker for broker, found in times.items() if not isinstance(found, Unanswered)}
    compares = sum(len(topic.partitions) for topic in first.topics) <= COMPARED_PARTITIONS
    said = asking.everybody("metadata", lambda: MetadataRequest(topics=None if compares else []))
    asking.miss("groups, disks and offsets", times.keys() - asking.answering)
    certificates = asking.requests.certificates(asking.answering)
    brokers = {}
    for broker, row in sorted(known.items()):
        time_ms = times[broker]
        brokers[broker] = BrokerView(
            broker_id=broker,
            address=f"{row.host}:{row.port}",
            round_trip_ms=None if isinstance(time_ms, Unanswered) else time_ms,
            waited_ms=limit_ms,
            error=str(time_ms) if isinstance(time_ms, Unanswered) else None,
            statements=(answers.statement(said[broker]),) if broker in said else (),
            certificate=certificates.get(broker),
            rack=row.rack,
        )
    best = said.get(first.controller_id) if compares else None
    return (first if best is None else best), brokers


def _with_disks_and_settings(asking: Asking, brokers: dict[int, BrokerView]) -> dict[int, BrokerView]:
    disks = asking.everybody("log directories", log_dirs_request)
    asked = {broker: answers.configs_request([(answers.BROKER, str(broker))]) for broker in asking.answering}
    settings = asking.each("settings", asked)
    found = {}
    for broker, view in brokers.items():
        directories = answers.log_directories(disks[broker]) if broker in disks else ()
        own: dict[str, str] = {}
        shared: frozenset[str] = frozenset()
        if broker in settings:
            own = answers.settings(settings[broker]).get(str(broker), {})
            shared = answers.settings_of_all_brokers(settings[broker]).get(str(broker), shared)
        found[broker] = replace(view, directories=directories, settings=own, shared_settings=shared)
    return found


def _with_topic_settings(asking: Asking, view: ClusterView, previous: ClusterView | None) -> ClusterView:
    since_ms = asking.clock.monotonic_ms() - STALLED_FOR_MS
    stalls = () if previous is None else tuple(
        each for each in previous.stalls
        if each.what == TOPIC_SETTINGS and each.asked_ms > since_ms and each.broker_id in asking.answering
    )  # fmt: skip
    if previous is not None and stalls:
        return replace(view, topic_settings=previous.topic_settings, stalls=stalls)
    topics = sorted({partition.topic for partition in view.partitions})
    first = _one_of(asking, view.controller)
    found = {} if first is None else _settings_of(asking, {first: topics[:1]})
    rest = topics[1:]
    while rest and first in asking.answering:
        asked = {}
        for broker in sorted(asking.answering):
            asked[broker], rest = rest[:TOPICS_PER_REQUEST], rest[TOPICS_PER_REQUEST:]
        found |= _settings_of(asking, asked)
    return replace(view, topic_settings=found)


def _settings_of(asking: Asking, topics: dict[int, list[str]]) -> dict[str, dict[str, str]]:
    """Ask each broker for settings of other topics."""
    asked = {
        broker: answers.configs_request([(answers.TOPIC, topic) for topic in names])
        for broker, names in topics.items()
        if names
    }
    found: dict[str, dict[str, str]] = {}
    for answer in asking.each(TOPIC_SETTINGS, asked).values():
        found |= answers.settings(answer)
    return found


def _reassignments(asking: Asking, controller: int | None) -> Any:
    broker = _one_of(asking, controller)
    if broker is None or (controller is not None and broker != controller):
        if controller is not None:
            asking.miss("reassignments", [controller])
        return None
    found = asking.each("reassignments", {broker: answers.reassignments_request(asking.left_ms)})
    return None if broker not in found else answers.reassignments(found[broker])


def _absent(asking: Asking, partitions: tuple[PartitionView, ...]) -> frozenset[str]:
    """Return the internal topics that do not exist: one that is not listed may be hidden from this user."""
    wanted = INTERNAL_REPLICAS.keys() - {partition.topic for partition in partitions}
    broker = min(asking.answering, default=None)
    if not wanted or broker is None:
        return frozenset()
    found = asking.each("internal topics", {broker: answers.metadata_request(wanted)})
    return answers.absent(found[broker]) if broker in found else frozenset()


def _described_groups(asking: Asking, listed: dict[int, Any]) -> list[GroupView]:
    """Return the groups with what they have committed; ends are not known yet. DescribeGroups knows classic groups only."""
    names = {
        broker: known
        for broker, answer in listed.items()
        if (known := [group.group_id for group in answer.groups if group.group_type in _DESCRIBED_TYPES])
    }
    for broker, answer in listed.items():
        others = len(answer.groups) - len(names.get(broker, ()))
        if others:
            asking.unseen.append(
                f"groups of broker {broker}: {others} use a group protocol that DescribeGroups does not know"
            )
    described = asking.each(
        "groups", {broker: answers.describe_groups_request(groups) for broker, groups in names.items()}
    )
    committed = asking.each(
        "offsets of groups", {broker: answers.offset_fetch_request(names[broker]) for broker in described}
    )
    found = []
    for broker, answer in described.items():
        offsets = answers.commits(committed[broker]) if broker in committed else {}
        for group in answer.groups:
            try:
                owned = answers.assigned(group)
            except answers.UnreadableAssignment:
                owned = set()
                asking.unseen.append(
                    f"what the members of group {group.group_id} read: their assignments cannot be read"
                )
            lags = tuple(
                LagView(topic, partition, offset, offset, (topic, partition) in owned)
                for (topic, partition), offset in sorted(offsets.get(group.group_id, {}).items())
            )
            is_simple = not group.protocol_type and not group.members
            found.append(
                GroupView(group.group_id, group.group_state, len(group.members), broker, lags, is_simple=is_simple)
            )
    return sorted(found, key=lambda group: group.group)


def _ends(asking: Asking, led: dict[int, set[Key]], *, is_committed_only: bool) -> dict[Key, int]:
    asked = {
        broker: answers.list_offsets_request(keys, is_committed_only=is_committed_only) for broker, keys in led.items()
    }
    return _offsets(asking, asked)


def _starts(asking: Asking, led: dict[int, set[Key]], wanted: set[Key]) -> dict[Key, int]:
    asked = {
        broker: answers.list_offsets_request(keys & wanted, timestamp=answers.EARLIEST)
        for broker, keys in led.items()
        if keys & wanted
    }
    return _offsets(asking, asked)


def _offsets(asking: Asking, asked: dict[int, Any]) -> dict[Key, int]:
    return {
        key: offset
        for answer in asking.each("offsets", asked).values()
        for key, offset in answers.offsets(answer).items()
    }


def _one_of(asking: Asking, preferred: int | None) -> int | None:
    if preferred in asking.answering:
        return preferred
    return min(asking.answering, default=None)

"""Collects a view of a cluster: asks all brokers side by side, and then observes what might stand still.

    metadata -> response times -> groups, disks, settings, reassignments -> commits -> ends, starts -> settings of topics
             -> open transactions
             -> what might stand still, again and again until it has moved or the window ends (tools.health.observation)

Rules: everything takes at most `limit_ms`. Commits are read before ends, so that no lag is negative. A cluster in which
nothing might stand still is shown at once. Brokers read settings of topics from ZooKeeper, and one of Apache Kafka keeps a
thread waiting with each request while that does not answer: one topic is asked for first, of one broker, and when that is not
answered, collections that follow soon do not ask again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from client.admin import share_groups
from client.admin.configs import ResourceKind
from client.admin.groups import CONSUMER, SHARE, described_newer
from client.admin.offsets import offsets_request
from client.admin.replicas import log_dirs_request
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.primitives import DecodeError
from tools.health import messages
from tools.health.broker_queries import BrokerQueries
from tools.health.observation import Observation
from tools.health.requests import BrokerRequests, Unanswered
from tools.health.settings import INTERNAL_REPLICAS
from tools.health.view import TOPIC_SETTINGS, BrokerView, ClusterView, GroupView, Key, LagView, PartitionView

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
_CLASSIC_TYPES = ("", "classic", "Classic")
_CONSUMER_TYPES = ("consumer", "Consumer")
_SHARE_TYPES = ("share", "Share")
"""As ListGroups names the types of groups; brokers before 3.8 name none."""
DESCRIBE_QUORUM = 55
"""The API that only brokers have whose controllers form a quorum."""


def collect_view(
    requests: BrokerRequests,
    clock: Clock,
    window_ms: int,
    previous: ClusterView | None = None,
    *,
    limit_ms: int = LIMIT_MS,
    on_brokers: Callable[[Collection[BrokerView]], None] = lambda _: None,
) -> ClusterView:
    """Return the view; at most `window_ms` are spent on what might stand still. `previous` is the view that was collected
    before, if there was one. `limit_ms` is the time for everything. `on_brokers` is called with the brokers as soon as they are
    known with their settings. Raises Unreachable."""
    queries = BrokerQueries(requests, clock, limit_ms)
    first = requests.connect(messages.metadata_request(None), min(CONNECT_LIMIT_MS, queries.left_ms))
    metadata, brokers = _brokers_of(queries, first)
    partitions = messages.partitions(metadata)
    controller = metadata.controller_id if metadata.controller_id >= 0 else None
    listed = queries.ask_all("groups", ListGroupsRequest())
    brokers = _with_disks_and_settings(queries, brokers)
    on_brokers(brokers.values())
    view = ClusterView(
        brokers=brokers,
        controller=controller,
        partitions=partitions,
        cluster_id=metadata.cluster_id,
        has_controllers=requests.has_api(DESCRIBE_QUORUM),
        reassignments=_reassignments(queries, controller),
        absent=_absent(queries, partitions),
    )
    groups = _described_groups(queries, listed)
    led = leaders_of(queries, partitions)
    ends = _offsets(queries, led)
    groups = [group.with_ends(ends) for group in groups]
    behind = {lag.key for group in groups for lag in group.lags if lag.lag}
    starts = _offsets(queries, {broker: keys & behind for broker, keys in led.items()}, EARLIEST)
    view = replace(view, groups=tuple(group.with_starts(starts) for group in groups))
    stable = _offsets(queries, led, is_committed_only=True)
    blocked = {key for key, end in stable.items() if end < ends.get(key, end)}
    view = _with_topic_settings(queries, view, previous)
    view = Observation(queries, view, led).run(blocked, window_ms)
    return replace(view, stalls=(*view.stalls, *queries.stalls), unseen=tuple(queries.unseen), now_ms=clock.wall_ms())


def leaders_of(queries: BrokerQueries, partitions: tuple[PartitionView, ...]) -> dict[int, set[Key]]:
    """Return the partitions by leader, of leaders that respond."""
    led: dict[int, set[Key]] = defaultdict(set)
    for partition in partitions:
        if partition.leader in queries.responding:
            led[partition.leader].add(partition.key)
    return led


def _brokers_of(queries: BrokerQueries, first: Any) -> tuple[Any, dict[int, BrokerView]]:
    """Measure how fast the brokers respond and what they say of the cluster. Returns what the controller says, if it
    responds, and the brokers."""
    known = {broker.node_id: broker for broker in first.brokers}
    limit_ms = min(PROBE_LIMIT_MS, queries.left_ms)
    times = queries.requests.probe(list(known), limit_ms)
    queries.responding = {broker for broker, found in times.items() if not isinstance(found, Unanswered)}
    compares = sum(len(topic.partitions) for topic in first.topics) <= COMPARED_PARTITIONS
    said = queries.ask_all("metadata", messages.metadata_request(None if compares else []))
    queries.note_unasked("groups, disks and offsets", times.keys() - queries.responding)
    certificates = queries.requests.certificates(queries.responding)
    brokers = {}
    for broker, row in sorted(known.items()):
        time_ms = times[broker]
        brokers[broker] = BrokerView(
            broker_id=broker,
            address=f"{row.host}:{row.port}",
            round_trip_ms=None if isinstance(time_ms, Unanswered) else time_ms,
            waited_ms=limit_ms,
            error=str(time_ms) if isinstance(time_ms, Unanswered) else None,
            statements=(messages.statement(said[broker]),) if broker in said else (),
            certificate=certificates.get(broker),
            rack=row.rack,
        )
    best = said.get(first.controller_id) if compares else None
    return (first if best is None else best), brokers


def _with_disks_and_settings(queries: BrokerQueries, brokers: dict[int, BrokerView]) -> dict[int, BrokerView]:
    disks = queries.ask_all("log directories", log_dirs_request())
    asked = {broker: messages.configs_request(ResourceKind.BROKER, [str(broker)]) for broker in queries.responding}
    settings = queries.ask_each("settings", asked)
    found = {}
    for broker, view in brokers.items():
        directories = messages.log_directories(disks[broker]) if broker in disks else ()
        own: dict[str, str] = {}
        shared: frozenset[str] = frozenset()
        if broker in settings:
            own = messages.settings(settings[broker]).get(str(broker), {})
            shared = messages.settings_of_all_brokers(settings[broker]).get(str(broker), shared)
        found[broker] = replace(view, directories=directories, settings=own, shared_settings=shared)
    return found


def _with_topic_settings(queries: BrokerQueries, view: ClusterView, previous: ClusterView | None) -> ClusterView:
    since_ms = queries.clock.monotonic_ms() - STALLED_FOR_MS
    stalls = () if previous is None else tuple(
        each for each in previous.stalls
        if each.what == TOPIC_SETTINGS and each.asked_ms > since_ms and each.broker_id in queries.responding
    )  # fmt: skip
    if previous is not None and stalls:
        return replace(view, topic_settings=previous.topic_settings, stalls=stalls)
    topics = sorted({partition.topic for partition in view.partitions})
    first = _one_of(queries, view.controller)
    found = {} if first is None else _settings_of(queries, {first: topics[:1]})
    rest = topics[1:]
    while rest and first in queries.responding:
        asked = {}
        for broker in sorted(queries.responding):
            asked[broker], rest = rest[:TOPICS_PER_REQUEST], rest[TOPICS_PER_REQUEST:]
        found |= _settings_of(queries, asked)
    return replace(view, topic_settings=found)


def _settings_of(queries: BrokerQueries, topics: dict[int, list[str]]) -> dict[str, dict[str, str]]:
    """Ask each broker for settings of other topics."""
    asked = {broker: messages.configs_request(ResourceKind.TOPIC, names) for broker, names in topics.items() if names}
    found: dict[str, dict[str, str]] = {}
    for response in queries.ask_each(TOPIC_SETTINGS, asked).values():
        found |= messages.settings(response)
    return found


def _reassignments(queries: BrokerQueries, controller: int | None) -> Any:
    broker = _one_of(queries, controller)
    if broker is None or (controller is not None and broker != controller):
        if controller is not None:
            queries.note_unasked("reassignments", [controller])
        return None
    found = queries.ask_each("reassignments", {broker: ListPartitionReassignmentsRequest(timeout_ms=queries.left_ms)})
    return None if broker not in found else messages.reassignments(found[broker])


def _absent(queries: BrokerQueries, partitions: tuple[PartitionView, ...]) -> frozenset[str]:
    """Return the internal topics that do not exist: one that is not listed may be hidden from this user."""
    wanted = INTERNAL_REPLICAS.keys() - {partition.topic for partition in partitions}
    broker = min(queries.responding, default=None)
    if not wanted or broker is None:
        return frozenset()
    found = queries.ask_each("internal topics", {broker: messages.metadata_request(wanted)})
    return messages.absent(found[broker]) if broker in found else frozenset()


def _described_groups(queries: BrokerQueries, listed: dict[int, Any]) -> list[GroupView]:
    """Return the groups with what they have committed; ends are not known yet. Each kind of group has its own request."""
    kinds = (_CLASSIC_TYPES, _CONSUMER_TYPES, _SHARE_TYPES)
    classic, consumer, sharing = (_names_of(listed, types) for types in kinds)
    for broker, response in listed.items():
        others = len(response.groups) - sum(len(each.get(broker, ())) for each in (classic, consumer, sharing))
        if others:
            queries.unseen.append(f"groups of broker {broker}: {others} are of a kind that this command does not know")
    of_classic = queries.ask_each(
        "groups", {broker: DescribeGroupsRequest(groups=groups) for broker, groups in classic.items()}
    )
    of_consumers = queries.ask_each(
        "groups",
        {
            broker: ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
            for broker, groups in consumer.items()
        },
    )
    described: dict[int, list[DescribedGroup]] = {broker: [*each.groups] for broker, each in of_classic.items()}
    for broker, each in of_consumers.items():
        described.setdefault(broker, []).extend(described_newer(group, CONSUMER) for group in each.groups)
    committed = queries.ask_each(
        "offsets of groups",
        {
            broker: messages.offset_fetch_request(group.group_id for group in groups)
            for broker, groups in described.items()
        },
    )
    found = _share_groups(queries, sharing)
    for broker, groups in described.items():
        offsets = messages.commits(committed[broker]) if broker in committed else {}
        for group in groups:
            owned = _owned(queries, group)
            lags = tuple(
                LagView(topic, partition, offset, offset, (topic, partition) in owned)
                for (topic, partition), offset in sorted(offsets.get(group.group_id, {}).items())
            )
            is_simple = not group.protocol_type and not group.members
            found.append(
                GroupView(group.group_id, group.group_state, len(group.members), broker, lags, is_simple=is_simple)
            )
    return sorted(found, key=lambda group: group.group)


def _share_groups(queries: BrokerQueries, names: Mapping[int, list[str]]) -> list[GroupView]:
    """Return the share groups with where their partitions begin, of those whose lag is told."""
    described = queries.ask_each(
        "groups", {broker: share_groups.describe_request(groups) for broker, groups in names.items()}
    )
    answers = queries.ask_each(
        "offsets of groups", {broker: share_groups.offsets_request(groups) for broker, groups in names.items()}
    )
    found = []
    for broker, response in described.items():
        offsets = messages.share_offsets(answers[broker]) if broker in answers else {}
        for row in response.groups:
            if row.error_code:
                continue
            owned = _owned(queries, described_newer(row, SHARE))
            lags = tuple(
                LagView(*key, each.start_offset, each.start_offset, key in owned, share_lag=each.lag)
                for key, each in sorted(offsets.get(row.group_id, {}).items())
                if each.lag is not None
            )
            found.append(GroupView(row.group_id, row.group_state, len(row.members), broker, lags, is_share=True))
    return found


def _owned(queries: BrokerQueries, group: DescribedGroup) -> set[Key]:
    try:
        return messages.assigned(group)
    except DecodeError:
        queries.unseen.append(f"what the members of group {group.group_id} read: their assignments cannot be read")
        return set()


def _names_of(listed: dict[int, Any], types: tuple[str, ...]) -> dict[int, list[str]]:
    """Return the groups of these types by broker, without brokers that have none."""
    return {
        broker: known
        for broker, response in listed.items()
        if (known := [group.group_id for group in response.groups if group.group_type in types])
    }


def _offsets(
    queries: BrokerQueries, led: Mapping[int, set[Key]], time: int = LATEST, *, is_committed_only: bool = False
) -> dict[Key, int]:
    """Return the offsets of partitions, which are given by leader."""
    requests = {
        broker: offsets_request(dict.fromkeys(keys, time), is_committed_only=is_committed_only)
        for broker, keys in led.items()
        if keys
    }
    found: dict[Key, int] = {}
    for response in queries.ask_each("offsets", requests).values():
        found |= messages.offsets(response)
    return found


def _one_of(queries: BrokerQueries, preferred: int | None) -> int | None:
    if preferred in queries.responding:
        return preferred
    return min(queries.responding, default=None)

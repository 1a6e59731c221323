"""The acknowledgements of one ShareFetch or ShareAcknowledge: checked, applied, and stored before the response.

Rules: each partition has its own outcome; what is wrong with one changes nothing of it. A partition that the group does not
read here has no record that could be acknowledged.
Source: Kafka KafkaApis.handleAcknowledgements, SharePartitionManager.acknowledge (KIP-932).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.handlers.groups.assigned_groups import check_share_member_id, check_shares_are_served
from broker.handlers.partition_lookup import KnownLeader, known_leader
from protocol.errors import ErrorCode, KafkaError
from replication.sharing.acknowledgements import AckBatch, check_form
from replication.sharing.sessions import PartitionKey

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext, Rights
    from replication.partition import Partition


class AcknowledgementBatch(Protocol):
    """A row of ShareFetch or ShareAcknowledge."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AcknowledgeOutcome(NamedTuple):
    """Of one partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


DONE = AcknowledgeOutcome()
# Of ShareFetch and of ShareAcknowledge.
_RENEWAL_SINCE = 2


class _Partition(Protocol):
    """A partition in ShareFetch or ShareAcknowledge."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class _Topic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class OfMember(Protocol):
    """ShareFetch or ShareAcknowledge."""

    group_id: str | None
    member_id: str | None
    is_renew_ack: bool

    @property
    def topics(self) -> Sequence[_Topic]: ...


def check_who_asks(request: OfMember, context: RequestContext, may_read_group: Rights) -> None:
    """Raises KafkaError while share groups are not served, for who may not read as the group, and INVALID_REQUEST for a request
    of no group, or of no member."""
    check_shares_are_served(context)
    group_id = request.group_id
    if not may_read_group(group_id or ""):
        raise may_read_group.denial(group_id or "")
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    check_share_member_id(request.member_id or "")


def located(context: RequestContext, key: PartitionKey, may_read: Rights) -> Partition | ErrorCode:
    """Return the partition if this broker leads it and the client may read it; else why not."""
    services, (topic_id, index) = context.services, key
    image = services.metadata.image
    name = image.names_by_id.get(topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not may_read.now(name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = services.partitions.find_by_id(topic_id, index)
    if partition is None:
        if index not in image.topics[name].partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_offline = services.partitions.is_offline(name, index)
        return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


NO_LEADER = KnownLeader(0, 0)
_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def leader_to_name(
    context: RequestContext, key: PartitionKey, errors: Iterable[ErrorCode], leaders: set[int]
) -> KnownLeader:
    """Return the leader that a row with `errors` names, which is added to `leaders`; NO_LEADER if it names none."""
    if _LEADER_ERRORS.isdisjoint(errors):
        return NO_LEADER
    topic_id, index = key
    name = context.services.metadata.image.names_by_id.get(topic_id, "")
    known = known_leader(context.services, name, index)
    if known is None:
        return NO_LEADER
    leaders.add(known.broker_id)
    return known


def follow_connection(context: RequestContext) -> None:
    """See that the sessions of this connection end with it."""
    sharing, connection_id = context.services.sharing, context.connection_id
    if sharing.watch(connection_id):
        context.on_close(lambda: sharing.on_disconnected(connection_id))


class Acknowledging:
    """Owned by the request. `outcomes` are complete once `when_done` has been called back."""

    __slots__ = ("_context", "_group_id", "_may_read", "_member_id", "_pending", "_when_done", "outcomes")

    def __init__(self, context: RequestContext, group_id: str, member_id: str, may_read: Rights) -> None:
        self.outcomes: dict[PartitionKey, AcknowledgeOutcome] = {}
        self._context = context
        self._group_id = group_id
        self._member_id = member_id
        self._may_read = may_read
        self._pending = 1  # until all are begun
        self._when_done: Callable[[], None] | None = None

    def apply_all(self, request: OfMember) -> None:
        """Begin to apply what the member says of each partition that it says something of."""
        for topic in request.topics:
            for row in topic.partitions:
                if row.acknowledgement_batches:
                    key = PartitionKey(topic.topic_id, row.partition_index)
                    self._apply(key, row.acknowledgement_batches, is_renewal=request.is_renew_ack)

    def _apply(self, key: PartitionKey, rows: Sequence[AcknowledgementBatch], *, is_renewal: bool) -> None:
        found = located(self._context, key, self._may_read)
        if isinstance(found, ErrorCode):
            self.outcomes[key] = AcknowledgeOutcome(found)
            return
        shared = self._context.services.sharing.find(self._group_id, *key)
        if shared is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.outcomes[key] = AcknowledgeOutcome(unknown, unknown.message)
            return
        batches = [AckBatch(row.first_offset, row.last_offset, row.acknowledge_types) for row in rows]
        try:
            check_form(batches, can_renew=self._context.api_version >= _RENEWAL_SINCE, is_renew=is_renewal)
        except KafkaError as malformed:
            self.outcomes[key] = AcknowledgeOutcome(malformed.code)
            return
        self._pending += 1
        try:
            shared.acknowledge(self._member_id, batches, partial(self._stored, key))
        except KafkaError as refused:
            self._pending -= 1
            self.outcomes[key] = AcknowledgeOutcome(refused.code, refused.message)
            return
        metrics = self._context.services.metrics
        metrics.share_acknowledged(found.topic)
        metrics.shares.acknowledged(batches)

    def when_done(self, callback: Callable[[], None]) -> None:
        """All are begun: call `callback` once all have an outcome, at once if they have."""
        self._when_done = callback
        self._settle()

    def _stored(self, key: PartitionKey, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE or key not in self.outcomes:
            self.outcomes[key] = DONE if error is ErrorCode.NONE else AcknowledgeOutcome(error)
        self._settle()

    def _settle(self) -> None:
        self._pending -= 1
        if not self._pending and self._when_done is not None:
            self._when_done()

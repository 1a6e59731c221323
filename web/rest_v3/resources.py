"""The form of each answer of REST v3.

Rules: answers are plain dictionaries, since a list may have ten thousand rows; the types are for the type checker and for the
OpenAPI description, by which the tests check each answer. No answer has a field that is not here.
Source: the OpenAPI description that Confluent publishes.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeVar

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

C = TypeVar("C", bound=type)


def _exactly(form: C) -> C:
    """Allow no other fields."""
    return with_config(ConfigDict(extra="forbid"))(form)


@_exactly
class ErrorData(TypedDict):
    error_code: int
    message: str | None


@_exactly
class Relationship(TypedDict):
    related: str


@_exactly
class ResourceMetadata(TypedDict):
    self: str
    resource_name: NotRequired[str | None]


@_exactly
class CollectionMetadata(TypedDict):
    """`next` is always null: lists are not divided."""

    self: str
    next: str | None


class Resource(TypedDict):
    kind: str
    metadata: ResourceMetadata
    cluster_id: str


class ResourceCollection(TypedDict):
    kind: str
    metadata: CollectionMetadata


# --- clusters and brokers ---


@_exactly
class ClusterData(Resource):
    controller: NotRequired[Relationship]
    acls: Relationship
    brokers: Relationship
    broker_configs: Relationship
    consumer_groups: Relationship
    topics: Relationship
    partition_reassignments: Relationship


@_exactly
class ClusterDataList(ResourceCollection):
    data: list[ClusterData]


@_exactly
class BrokerData(Resource):
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Relationship
    partition_replicas: Relationship


@_exactly
class BrokerDataList(ResourceCollection):
    data: list[BrokerData]


# --- settings ---


@_exactly
class ConfigSynonymData(TypedDict):
    name: str
    value: str | None
    source: str


class ConfigData(Resource):
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]


@_exactly
class TopicConfigData(ConfigData):
    topic_name: str


@_exactly
class TopicConfigDataList(ResourceCollection):
    data: list[TopicConfigData]


@_exactly
class BrokerConfigData(ConfigData):
    broker_id: int


@_exactly
class BrokerConfigDataList(ResourceCollection):
    data: list[BrokerConfigData]


@_exactly
class ClusterConfigData(ConfigData):
    config_type: Literal["BROKER"]


@_exactly
class ClusterConfigDataList(ResourceCollection):
    data: list[ClusterConfigData]


# --- topics and partitions ---


@_exactly
class TopicData(Resource):
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Relationship
    configs: Relationship
    partition_reassignments: Relationship
    authorized_operations: NotRequired[list[str]]


@_exactly
class TopicDataList(ResourceCollection):
    data: list[TopicData]


@_exactly
class PartitionData(Resource):
    topic_name: str
    partition_id: int
    leader: NotRequired[Relationship]
    replicas: Relationship
    reassignment: Relationship


@_exactly
class PartitionDataList(ResourceCollection):
    data: list[PartitionData]


@_exactly
class ReplicaData(Resource):
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Relationship


@_exactly
class ReplicaDataList(ResourceCollection):
    data: list[ReplicaData]


@_exactly
class ReassignmentData(Resource):
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Relationship


@_exactly
class ReassignmentDataList(ResourceCollection):
    data: list[ReassignmentData]


# --- groups ---


@_exactly
class ConsumerGroupData(Resource):
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    coordinator: Relationship
    consumers: Relationship
    lag_summary: Relationship


@_exactly
class ConsumerGroupDataList(ResourceCollection):
    data: list[ConsumerGroupData]


@_exactly
class ConsumerData(Resource):
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Relationship


@_exactly
class ConsumerDataList(ResourceCollection):
    data: list[ConsumerData]


@_exactly
class ConsumerAssignmentData(Resource):
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Relationship
    lag: Relationship


@_exactly
class ConsumerAssignmentDataList(ResourceCollection):
    data: list[ConsumerAssignmentData]


@_exactly
class ConsumerLagData(Resource):
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


@_exactly
class ConsumerLagDataList(ResourceCollection):
    data: list[ConsumerLagData]


@_exactly
class ConsumerGroupLagSummaryData(Resource):
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Relationship
    max_lag_partition: Relationship


# --- ACLs ---


@_exactly
class AclData(Resource):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@_exactly
class AclDataList(ResourceCollection):
    data: list[AclData]


@_exactly
class DeletedAcls(TypedDict):
    data: list[AclData]


# --- records ---


@_exactly
class ProducedPart(TypedDict):
    """`size` is that of the key or the value as it is stored, in bytes."""

    type: Literal["BINARY", "JSON", "STRING"]
    size: int


class RecordPlace(TypedDict):
    """The offset is -1 where the broker has not said it, as it had the record from an earlier attempt."""

    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str
    key: NotRequired[ProducedPart]
    value: NotRequired[ProducedPart]


@_exactly
class ProduceReport(RecordPlace):
    """`error_code` is 200."""

    error_code: int


@_exactly
class BatchSuccess(RecordPlace):
    id: str


@_exactly
class BatchFailure(TypedDict):
    id: str
    error_code: int
    message: str | None


@_exactly
class BatchReport(TypedDict):
    successes: list[BatchSuccess]
    failures: list[BatchFailure]

"""Bodies of requests and answers of REST v2."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Partition = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Offset = Annotated[int, Field(ge=0, le=(1 << 63) - 2)]
MAX_PARTITIONS = 100_000


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProducedRecord(_Request):
    """Key and value are in the embedded format; null is none."""

    key: Any = None
    value: Any = None
    partition: Partition | None = None


class ProduceRequest(_Request):
    """The schemas belong to formats that this interface only reads."""

    records: list[ProducedRecord] = Field(min_length=1)
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


class PartitionOffset(BaseModel):
    """Where a record is, or why it is nowhere."""

    partition: int | None = None
    offset: int | None = None
    error_code: int | None = None
    error: str | None = None


class ProduceResponse(BaseModel):
    """In the order of the records."""

    offsets: list[PartitionOffset]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


class PartitionReplica(BaseModel):
    broker: int
    leader: bool
    in_sync: bool


class PartitionState(BaseModel):
    """`leader` is -1 while there is none."""

    partition: int
    leader: int
    replicas: list[PartitionReplica]


class TopicState(BaseModel):
    name: str
    configs: dict[str, str | None]
    partitions: list[PartitionState]


class PartitionOffsets(BaseModel):
    beginning_offset: int
    end_offset: int


class Brokers(BaseModel):
    brokers: list[int]


class NewInstance(_Request):
    """`id` is an old name of `name`."""

    id: str | None = Field(None, min_length=1, max_length=255)
    name: str | None = Field(None, min_length=1, max_length=255)
    format: str | None = None
    auto_offset_reset: str | None = Field(None, alias="auto.offset.reset")
    auto_commit_enable: bool | None = Field(None, alias="auto.commit.enable")
    fetch_min_bytes: int | None = Field(None, alias="fetch.min.bytes")
    consumer_request_timeout_ms: int | None = Field(None, alias="consumer.request.timeout.ms")


class CreatedInstance(BaseModel):
    instance_id: str
    base_uri: str


class Subscription(_Request):
    """One of both. The pattern is of RE2, and has to match the whole name."""

    topics: list[str] | None = Field(None, max_length=MAX_PARTITIONS)
    topic_pattern: str | None = Field(None, max_length=1_000)


class SubscribedTopics(BaseModel):
    topics: list[str]


class TopicPartitionName(_Request):
    topic: str
    partition: Partition


class Partitions(_Request):
    partitions: list[TopicPartitionName] = Field(max_length=MAX_PARTITIONS)


class NamedOffset(_Request):
    topic: str
    partition: Partition
    offset: Offset
    metadata: str | None = None


class Offsets(_Request):
    offsets: list[NamedOffset] = Field(max_length=MAX_PARTITIONS)


class ConsumedRecord(BaseModel):
    """Key and value are in the consumer's format."""

    topic: str
    key: Any
    value: Any
    partition: int
    offset: int

"""The form of each request of REST v3, but for those of records, which `web.rest_v3.records` reads.

Rules: a field that is not here is an error, so that a slip is not overlooked.
Source: the OpenAPI description that Confluent publishes.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewConfig(Body):
    name: str
    value: str | None = None


class NewAssignment(Body):
    partition_id: int
    broker_ids: list[int]


class CreateTopicRequest(Body):
    """Without a number of partitions or replicas the cluster has defaults. `replicas_assignments` says both."""

    topic_name: str
    partitions_count: int | None = Field(default=None, le=2**31 - 1, ge=-(2**31))
    replication_factor: int | None = Field(default=None, le=2**15 - 1, ge=-(2**15))
    replicas_assignments: list[NewAssignment] = []
    configs: list[NewConfig] = []
    validate_only: bool = False


class UpdatePartitionCountRequest(Body):
    partitions_count: int = Field(le=2**31 - 1, ge=-(2**31))


class UpdateConfigRequest(Body):
    value: str | None = None


class ConfigChange(Body):
    """`operation` is SET by default."""

    name: str
    value: str | None = None
    operation: Literal["SET", "DELETE"] | None = None


class AlterConfigsRequest(Body):
    """All of the changes are made, or none."""

    data: list[ConfigChange]
    validate_only: bool = False


class CreateAclRequest(Body):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class CreateAclsRequest(Body):
    data: list[CreateAclRequest]

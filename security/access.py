"""What a request needs before it may be handled: operations on resources, declared by its handler. Pure.

A handler declares its `Access` once. A `Requirement` whose resource the request names as a whole (the cluster, a group, a
transactional id) is checked before the handler runs, and its failure refuses the request with `denied`. A resource at a time
(the topics of a Produce) is filtered by the handler, because the rest of the request goes on; its row says so with
`is_filtered`. For each such row the handler takes a parameter, which the gate gives: there is no other way to ask.

Invariant: every API has an `Access`; `NOTHING` says that any connected client may ask.
Source: Kafka KafkaApis (the checks of each handler), AclOperation, ResourceType.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from protocol.errors import ErrorCode


class ResourceType(IntEnum):
    """The codes of Kafka's ACL requests."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """The codes of Kafka's ACL requests. ALL occurs in ACLs only: no request needs it."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """An operation on resources of one type: any one of `operations` suffices.

    `name_of` returns the name of the resource that a decoded request is about, or None when this request is about none of
    this type. `denial` is the error message of a response that refuses the request, if it has a place for one.
    `is_filtered`: the handler gets `broker.network.request_context.Rights`, which decide one resource after the other, and
    `name_of` is not called. Who may do `or_on_cluster` on the cluster, may do it on all. With `logs_denial` false, the client
    asks for what it may see, and names nothing that it is denied.
    """

    operations: tuple[Operation, ...]
    resource_type: ResourceType
    name_of: Callable[[Any], str | None]
    is_filtered: bool = False
    denial: str | None = None
    or_on_cluster: Operation | None = None
    logs_denial: bool = True

    @property
    def denied(self) -> ErrorCode:
        return DENIED[self.resource_type]


Access = tuple[Requirement, ...]

NOTHING: Access = ()


NOT_AUTHORIZED = "The request is not authorized."
"""Apache Kafka prints its request object here, with addresses of memory and of the connection."""


def on_cluster(*operations: Operation, denial: str | None = NOT_AUTHORIZED) -> Requirement:
    """The request as a whole needs one of `operations` on the cluster."""
    return Requirement(operations, ResourceType.CLUSTER, lambda _request: CLUSTER_NAME, denial=denial)


def on_named(operation: Operation, resource_type: ResourceType, field: str) -> Requirement:
    """The request as a whole needs `operation` on the resource that its `field` names; null names none."""

    def name_of(request: Any) -> str | None:
        name: str | None = getattr(request, field)
        return name

    return Requirement((operation,), resource_type, name_of)


def on_each(
    operation: Operation,
    resource_type: ResourceType,
    *,
    or_on_cluster: Operation | None = None,
    logs_denial: bool = True,
) -> Requirement:
    """The handler filters: it needs `operation` on each resource of this type that the request names or asks for."""
    return Requirement(
        (operation,),
        resource_type,
        lambda _request: None,
        is_filtered=True,
        or_on_cluster=or_on_cluster,
        logs_denial=logs_denial,
    )

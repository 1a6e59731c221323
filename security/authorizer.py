"""The decision whether a principal may do an operation on a resource, as its users see it. Pure.

Rules: a decision is made from memory, without awaiting: it is on the hot path. Whoever asks passes the client's address,
because ACLs name hosts. An authorizer writes nothing: `RequestContext.allows` logs denials, because it knows the request.
Source: Kafka Authorizer, AuthHelper; KIP-504, KIP-679.
"""

from __future__ import annotations

from typing import Protocol

from security.access import Operation, ResourceType
from security.denial import Cause, Denied
from security.principal import Principal


class Authorizer(Protocol):
    """Implemented by what `authorizer.class.name` names; one object for a broker."""

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed to all: then callers need not ask for one resource after the other."""

    @property
    def changes_count(self) -> int:
        """How often a decision may have changed: the holder of a decision asks again when this is another number."""

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return whether `principal`, connected from the address `host`, may do `operation` on one resource."""

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is at least one resource of this type on which it may."""

    def cause(self, denied: Denied) -> Cause:
        """Return why it was denied. This counts as no decision."""


class EverybodyAllowed:
    """The authorizer of a broker without `authorizer.class.name`."""

    is_open = True
    changes_count = 0

    def allows(
        self,
        _principal: Principal,
        _host: str,
        _operation: Operation,
        _resource_type: ResourceType,
        _name: str,
    ) -> bool:
        return True

    def allows_any(self, _principal: Principal, _host: str, _operation: Operation, _type: ResourceType) -> bool:
        return True

    def cause(self, denied: Denied) -> Cause:
        raise AssertionError(f"nothing is denied: {denied}")

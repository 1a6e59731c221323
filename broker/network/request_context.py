"""What a handler gets besides the decoded message: who asks, the broker's components, and what the client may do.

Invariant: a context lives as long as its request; a connection's facts are shared by all of its contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.network.client_connection import RequestFacts
from protocol.errors import KafkaError
from security.access import DENIED
from security.denial import Denied, client_text

if TYPE_CHECKING:
    from broker.services import Services
    from security.access import Operation, ResourceType

DENIAL_TEXTS_MAX = 1000
"""Errors of one request that tell what is missing: a client that may do nothing, and asks for much, gets no long response."""


def _always(_name: str) -> bool:
    return True


class _Decisions:
    """What a client may do in one request, by the name of the resource."""

    __slots__ = ("_by_name", "_context", "_logs_denial", "_operation", "_resource_type")

    def __init__(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, *, logs_denial: bool
    ) -> None:
        self._context = context
        self._operation = operation
        self._resource_type = resource_type
        self._logs_denial = logs_denial
        self._by_name: dict[str, bool] = {}

    def of(self, name: str) -> bool:
        known = self._by_name.get(name)
        if known is None:
            known = self._by_name[name] = self._context.allows(
                self._operation, self._resource_type, name, logs_denial=self._logs_denial
            )
        return known


@dataclass(slots=True)
class RequestContext(RequestFacts):
    """The facts of a request, the components that its handler may call, and what the client may do with them."""

    services: Services

    def allows(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        """Return whether the client may do `operation` on a resource. The answer is logged, unless it is no and the client has
        not asked for this resource: it asks for all that it may see, or what it may do."""
        connection = self.connection
        services = self.services
        is_allowed = services.authorizer.allows(
            connection.principal, connection.peer.host, operation, resource_type, name
        )
        if not is_allowed:
            if logs_denial:
                services.audit.denied(self, self._denied(operation, resource_type, name), services.authorizer.cause)
        elif services.audit.logs_allowed:
            services.audit.allowed(self, operation, resource_type, name)
        return is_allowed

    def may(
        self, operation: Operation, resource_type: ResourceType, *, logs_denial: bool = True
    ) -> Callable[[str], bool]:
        """Return a function from the name of a resource of this type to whether the client may do `operation` on it. Each
        name is decided, and logged, once."""
        if self.services.authorizer.is_open:
            return _always
        return _Decisions(self, operation, resource_type, logs_denial=logs_denial).of

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is a resource of this type on which the client may do `operation`. A no is logged."""
        connection = self.connection
        is_allowed = self.services.authorizer.allows_any(
            connection.principal, connection.peer.host, operation, resource_type
        )
        if not is_allowed:
            self.services.audit.denied(self, self._denied(operation, resource_type, ""), self.services.authorizer.cause)
        return is_allowed

    def denial(
        self, operation: Operation, resource_type: ResourceType, name: str, text: str | None = None
    ) -> KafkaError:
        """Return the error of a denied operation. Its message is `text`, which Apache Kafka sends, or the general one of the
        error. In DENIAL_TEXTS_MAX errors of a request it also tells a client that may know it what is missing, and which
        command gives it."""
        code = DENIED[resource_type]
        self.denials_count += 1
        if self.denials_count <= DENIAL_TEXTS_MAX:
            denied = self._denied(operation, resource_type, name)
            missing = client_text(denied, self.services.authorizer.cause(denied))
            text = " ".join(filter(None, (text, missing))) or text
        return KafkaError(code, text)

    def _denied(self, operation: Operation, resource_type: ResourceType, name: str) -> Denied:
        return Denied(self.connection.principal, self.connection.peer.host, operation, resource_type, name)

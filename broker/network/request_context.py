"""What a handler gets besides the decoded message: who asks, the broker's components, and what the client may do.

Invariant: a context lives as long as its request; a connection's facts are shared by all of its contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.network.connections.client_connection import RequestFacts
from protocol.errors import KafkaError
from security.access import CLUSTER_NAME, DENIED, ResourceType
from security.denial import Denied, client_text

if TYPE_CHECKING:
    from broker.services import Services
    from protocol.errors import ErrorCode
    from security.access import Operation, Requirement

DENIAL_TEXTS_MAX = 1000
"""Errors of one request that tell what is missing: a client that may do nothing, and asks for much, gets no long response."""


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

    def rights(self, needs: tuple[Requirement, ...]) -> tuple[Rights, ...]:
        """Return what a handler that filters these gets."""
        if not needs or self.services.authorizer.is_open:
            return _OPEN[len(needs)]
        return tuple([Rights(self, need) for need in needs])

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


class Rights:
    """Whether the client of a request may do what its handler declares for each resource (`security.access.on_each`).

    Called with the name of a resource. Each name is decided, and logged, once.
    """

    __slots__ = ("_by_name", "_context", "_logs_denial", "_may_all", "_need")

    are_open = False
    """Whether everybody may do everything."""

    def __init__(self, context: RequestContext, need: Requirement, *, logs_denial: bool = True) -> None:
        self._context = context
        self._need = need
        self._logs_denial = logs_denial and need.logs_denial
        self._may_all: bool | None = None if need.or_on_cluster else False  # None: not decided yet
        self._by_name: dict[str, bool] = {}

    @property
    def denied(self) -> ErrorCode:
        return self._need.denied

    def __call__(self, name: str) -> bool:
        known = self._by_name.get(name)
        if known is None:
            known = self._by_name[name] = self._on_cluster() or self.now(name, logs_denial=self._logs_denial)
        return known

    def now(self, name: str, *, logs_denial: bool = True) -> bool:
        """Decide anew, for what goes on while ACLs change."""
        need = self._need
        return self._context.allows(need.operations[0], need.resource_type, name, logs_denial=logs_denial)

    def on_any(self) -> bool:
        """Return whether there is a resource on which the client may do it. A no is logged."""
        return self._on_cluster() or self._context.allows_any(self._need.operations[0], self._need.resource_type)

    def unlogged(self) -> Rights:
        """Return the same for resources that the client has not named: it asks for all that it may see."""
        return Rights(self._context, self._need, logs_denial=False)

    def denial(self, name: str, text: str | None = None) -> KafkaError:
        """Return the error of a denial, as `RequestContext.denial`."""
        return self._context.denial(self._need.operations[0], self._need.resource_type, name, text)

    def _on_cluster(self) -> bool:
        if self._may_all is None:
            operation = self._need.or_on_cluster
            assert operation is not None
            self._may_all = self._context.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False)
        return self._may_all


class _OpenRights(Rights):
    """Of a broker without an authorizer: one object for all requests."""

    __slots__ = ()

    are_open = True

    def __init__(self) -> None:
        pass

    def __call__(self, _name: str) -> bool:
        return True

    def now(self, _name: str, *, logs_denial: bool = True) -> bool:
        return True

    def on_any(self) -> bool:
        return True

    def unlogged(self) -> Rights:
        return self


_OPEN = [(_OpenRights(),) * count for count in range(4)]
"""By the number of requirements."""

"""Admission by the table of access rows: what a request needs as a whole is checked before its handler runs.

Rules: pure. A requirement with a named resource (the cluster, a group, a transactional id) is checked here, in the order of the
row; the first that fails refuses the request, which `broker.network.responses.error_responses` responds to. Filtered
requirements are parameters of the handler, which decide one resource after the other (`broker.network.request_context.Rights`).
Invariants: a request that needs something on a named resource reaches its handler only if the client may. Every request is
decided anew: no decision outlives it.
Source: Kafka KafkaApis, AuthHelper.authorize, authorizeClusterOperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.gate import Refusal
from security.access import Requirement

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext
    from broker.network.routes import Route
    from protocol.schema import Request


class AccessAdmission:
    """Admits what the authorizer of the request's context allows."""

    __slots__ = ()

    def admit(self, route: Route, request: Request, context: RequestContext) -> Refusal | None:
        handler = route.handler
        context.api_name = handler.api_name
        context.denials_count = 0
        for requirement in handler.access:
            if requirement.is_filtered:
                continue
            name = requirement.name_of(request)
            if name is not None and not _is_met(requirement, name, context):
                operation, kind = requirement.operations[-1], requirement.resource_type
                denial = context.denial(operation, kind, name, requirement.denial)
                return Refusal(denial.code, denial.own_message)
        return None


def _is_met(requirement: Requirement, name: str, context: RequestContext) -> bool:
    """Whether one of the operations is allowed. Only a denial of the last one is logged."""
    *others, last = requirement.operations
    if any(context.allows(each, requirement.resource_type, name, logs_denial=False) for each in others):
        return True
    return context.allows(last, requirement.resource_type, name)

"""What is written about clients' authorisation: who was refused what.

Rules: a line for each denial at INFO, unless the client has only asked what it may do; one for each permission at DEBUG, as
Kafka's authorizer writes them. Lines have no secrets: they name resources, never their contents.
Source: Kafka AclAuthorizer.logAuditMessage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext
    from security.access import Operation, ResourceType

logger = logging.getLogger(__name__)


class AuditLog:
    """One object for a broker."""

    def denied(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """`context` is of the request that was refused, as a whole or for one resource; no name stands for any resource."""
        logger.info(
            "operation denied: principal=%r operation=%s resource_type=%s resource_name=%r api=%s address=%s listener=%s",
            str(context.principal), operation.name, resource_type.name, name, context.api_name, context.client_host,
            context.listener,
        )  # fmt: skip

    def allowed(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> None:
        logger.debug(
            "operation allowed: principal=%r operation=%s resource_type=%s resource_name=%r api=%s address=%s listener=%s",
            str(context.principal), operation.name, resource_type.name, name, context.api_name, context.client_host,
            context.listener,
        )  # fmt: skip

    @property
    def logs_allowed(self) -> bool:
        return logger.isEnabledFor(logging.DEBUG)

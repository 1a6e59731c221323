"""Brokers' ACLs over one simulated ensemble."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from broker.cluster.cluster_acls import ClusterAcls, follow_acls
from broker.network.request_context import RequestContext
from broker.observability.audit import AuditLog
from config.inter_broker_version import InterBrokerVersion
from metadata.store.port import Store
from runtime.clock import Clock, SystemClock
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from security.access import Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclBinding, AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import Principal
from tests.broker.contexts import context_of
from tests.simulation.store import SimulatedEnsemble, SimulatedStore

ALICE = Principal("User", "alice")
HOST = "10.0.0.1"
LATEST = "3.9-IV0"


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: PermissionType = PermissionType.ALLOW,
    *,
    principal: Principal = ALICE,
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    """Return an ACL for a topic."""
    return AclBinding(
        ResourcePattern(ResourceType.TOPIC, name, pattern_type), AclEntry(principal, host, operation, permission)
    )


class AclBroker:
    """What a broker knows of ACLs."""

    def __init__(self, store: SimulatedStore, authorizer: AclAuthorizer, acls: ClusterAcls) -> None:
        self.store = store
        self.authorizer = authorizer
        self.acls = acls

    def allows(self, name: str = "orders", operation: Operation = Operation.READ) -> bool:
        """Return whether alice may."""
        return self.authorizer.allows(ALICE, HOST, operation, ResourceType.TOPIC, name)


class AclWorld:
    """`async with AclWorld(...) as world`; brokers join with `broker`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.ensemble = SimulatedEnsemble(self.clock)
        self.tasks = TaskScope("test")
        self.store: Store = self.ensemble.connect()

    async def __aenter__(self) -> AclWorld:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tasks.close()

    async def broker(self, version: str = LATEST) -> AclBroker:
        store, authorizer = self.ensemble.connect(), AclAuthorizer()
        acls = await follow_acls(authorizer, store, self.tasks, self.clock, InterBrokerVersion.parse(version))
        assert acls is not None
        return AclBroker(store, authorizer, acls)

    def context(self, broker: AclBroker | None, version: int = 3) -> RequestContext:
        services = SimpleNamespace(
            acls=None if broker is None else broker.acls,
            audit=AuditLog(),
            authorizer=None if broker is None else broker.authorizer,
            clock=self.clock,
            serial_queue=SerialQueue(self.clock, asyncio.get_running_loop().call_soon),
        )
        return context_of(services, version, host=HOST)

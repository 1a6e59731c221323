"""What a broker grants and denies, and what it writes down about it: the authorizer, its ACLs, the audit log.

Rules: made with the broker, so that invalid settings stop it at once. The audit log is opened before anything else happens, and
closed when no request can come any more; all ACLs are loaded before the port is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.cluster.cluster_acls import ClusterAcls, follow_acls
from broker.observability.audit import AuditLog
from broker.observability.audit_file import AuditFile
from security.acls.acl_authorizer import AclAuthorizer
from security.authorizer import Authorizer, EverybodyAllowed
from security.principal import Principal

if TYPE_CHECKING:
    from broker.dependencies import Dependencies
    from config.broker import BrokerSettings
    from config.inter_broker_version import InterBrokerVersion
    from metadata.store.port import Store
    from runtime.tasks import TaskScope


class AccessControl:
    """`audit.open`, `load`, and at the end `close` and `audit.close`. `acls` is None without an authorizer that has some."""

    def __init__(self, settings: BrokerSettings, dependencies: Dependencies, tasks: TaskScope) -> None:
        """Raises ConfigError."""
        self._clock = dependencies.clock
        self._tasks = tasks
        self.authorizer = authorizer(settings)
        self.audit = audit_log(settings, dependencies, tasks)
        self.acls: ClusterAcls | None = None

    async def load(self, store: Store, version: InterBrokerVersion) -> None:
        """Read all ACLs, and follow their changes from then on. Raises StoreError, ConfigError."""
        self.acls = await follow_acls(self.authorizer, store, self._tasks, self._clock, version)

    def close(self) -> None:
        """Stop following changes."""
        if self.acls is not None:
            self.acls.close()


def authorizer(settings: BrokerSettings) -> Authorizer:
    """Return what decides who may do what, as `authorizer.class.name` says; without ACLs yet. Raises ConfigError."""
    acl_settings = settings.acl_settings
    if acl_settings is None:
        return EverybodyAllowed()
    super_users = [Principal.parse(text) for text in acl_settings.super_users]
    return AclAuthorizer(super_users, allows_without_acl=acl_settings.allows_without_acl)


def audit_log(settings: BrokerSettings, dependencies: Dependencies, tasks: TaskScope) -> AuditLog:
    """Return the log of denials and administration, with its file if there is one."""
    path = settings.barnabas_audit_log
    if path is None:
        return AuditLog(dependencies.clock)
    queue = dependencies.disk.queue(f"{path}#audit")
    return AuditLog(dependencies.clock, AuditFile(path, dependencies.filesystem, queue, tasks))

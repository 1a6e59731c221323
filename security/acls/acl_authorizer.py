"""The authorizer that decides by ACLs. Pure.

Rules: super users may do everything. Without an ACL for a resource, `allow.everyone.if.no.acl.found` decides. Decisions are
kept until an ACL changes: the warm decision is one dictionary access.
Invariants: what is kept is bounded, by their number and by the length of names; a decision made before a change is never
returned after it.
Source: Kafka AclAuthorizer; KIP-504, KIP-679.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from security.access import Operation, ResourceType
from security.acls.entries import AclEntry, ResourcePattern
from security.acls.index import AclIndex
from security.denial import Cause, Denied
from security.principal import Principal

DECISIONS_MAX = 20_000
"""Kept at a time; all are dropped when there are more. At most 10 MB with the longest names."""

_NAME_CHARACTERS_MAX = (
    256  # of names whose decisions are kept: those of topics are shorter, and clients choose the others
)

_Question = tuple[Principal, str, Operation, ResourceType, str | None]


class AclAuthorizer:
    """Decides from `acls`, which only `replace` changes. The counts are of decisions, kept ones included."""

    is_open = False

    def __init__(self, super_users: Collection[Principal] = (), *, allows_without_acl: bool = False) -> None:
        self.acls = AclIndex()
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._decisions: dict[_Question, bool] = {}
        self.decided_count = self.denied_count = 0
        self.changes_count = 0

    def replace(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> bool:
        """Set the entries of a pattern; none remove it. Returns whether anything has changed."""
        has_changed = self.acls.replace(pattern, entries)
        if has_changed:
            self._decisions.clear()
            self.changes_count += 1
        return has_changed

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        is_allowed = self._decisions.get((principal, host, operation, resource_type, name))
        if is_allowed is None:
            is_allowed = principal in self._super_users or self._by_acls(
                principal, host, operation, resource_type, name
            )
            self._keep((principal, host, operation, resource_type, name), is_allowed=is_allowed)
        self.decided_count += 1
        if not is_allowed:
            self.denied_count += 1
        return is_allowed

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        question = (principal, host, operation, resource_type, None)
        is_allowed = self._decisions.get(question)
        if is_allowed is None:
            is_allowed = principal in self._super_users or self._any_by_acls(principal, host, operation, resource_type)
            self._keep(question, is_allowed=is_allowed)
        self.decided_count += 1
        if not is_allowed:
            self.denied_count += 1
        return is_allowed

    def cause(self, denied: Denied) -> Cause:
        principal, host, operation, resource_type, name = denied
        is_visible = (
            resource_type is not ResourceType.TOPIC
            or operation is Operation.CREATE
            or self._by_acls(principal, host, Operation.DESCRIBE, resource_type, name)
        )
        return Cause(is_visible, self.acls.denying(principal, host, operation, resource_type, name))

    def _by_acls(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        by_acls = self.acls.decide(principal, host, operation, resource_type, name)
        return self._allows_without_acl if by_acls is None else by_acls

    def _any_by_acls(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        if self._allows_without_acl:
            return not self.acls.denies_all(principal, host, operation, resource_type)
        return self.acls.allows_any(principal, host, operation, resource_type)

    def _keep(self, question: _Question, *, is_allowed: bool) -> None:
        name = question[-1]
        if name is None or len(name) <= _NAME_CHARACTERS_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[question] = is_allowed

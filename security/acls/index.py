"""All ACLs of a cluster, and what they say about a principal, an operation and a resource. Pure.

Rules: DENY before ALLOW. Who may READ, WRITE, DELETE or ALTER may DESCRIBE; who may ALTER_CONFIGS may DESCRIBE_CONFIGS; this
holds for ALLOW only, so that a denied READ leaves DESCRIBE. Without an ACL that applies to the resource, `None`: the
authorizer decides.
Invariants: a pattern without entries is not there. What a decision costs depends on the ACLs that apply to the resource and
on the number of lengths of prefixes, not on the number of patterns.
Source: Kafka AclAuthorizer (matchingAcls, authorizeByResourceType); KIP-679.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from itertools import product

from security.access import Operation, ResourceType
from security.acls.entries import (
    EVERYBODY,
    WILDCARD,
    AclBinding,
    AclEntry,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from security.principal import Principal

IMPLIED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
"""Operations that are allowed to those who are allowed another one."""

_NOBODY: frozenset[AclEntry] = frozenset()
_Names = list[Set[str]]


class AclIndex:
    """Changed by `replace`, one pattern at a time."""

    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, frozenset[AclEntry]] = {}
        self._literal: dict[ResourceType, dict[str, frozenset[AclEntry]]] = {each: {} for each in ResourceType}
        self._prefixed: dict[ResourceType, dict[str, frozenset[AclEntry]]] = {each: {} for each in ResourceType}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}  # how many patterns have a prefix of this length
        # Names of the patterns with this very entry, for questions about any resource of a type.
        self._names: dict[tuple[AclEntry, ResourceType, PatternType], set[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of ACLs."""
        return self._count

    def __iter__(self) -> Iterator[AclBinding]:
        for pattern, entries in self._entries.items():
            for entry in entries:
                yield AclBinding(pattern, entry)

    @property
    def patterns(self) -> Set[ResourcePattern]:
        """Those with ACLs: a view, which follows changes."""
        return self._entries.keys()

    def entries(self, pattern: ResourcePattern) -> frozenset[AclEntry]:
        """Return the entries of exactly this pattern."""
        return self._entries.get(pattern, _NOBODY)

    def replace(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> bool:
        """Set the entries of a pattern; none remove it. Returns whether anything has changed."""
        new, old = frozenset(entries), self._entries.get(pattern, _NOBODY)
        if new == old:
            return False
        self._count += len(new) - len(old)
        self._count_prefix(pattern, bool(new) - bool(old))
        is_prefixed = pattern.pattern_type == PatternType.PREFIXED
        by_name = (self._prefixed if is_prefixed else self._literal)[pattern.resource_type]
        if new:
            self._entries[pattern] = by_name[pattern.name] = new
        else:
            del self._entries[pattern], by_name[pattern.name]
        for entry in old - new:
            key = (entry, pattern.resource_type, pattern.pattern_type)
            self._names[key].discard(pattern.name)
            if not self._names[key]:
                del self._names[key]
        for entry in new - old:
            self._names.setdefault((entry, pattern.resource_type, pattern.pattern_type), set()).add(pattern.name)
        return True

    def _count_prefix(self, pattern: ResourcePattern, change: int) -> None:
        if change and pattern.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(pattern.resource_type, {})
            count = lengths.get(len(pattern.name), 0) + change
            if count:
                lengths[len(pattern.name)] = count
            else:
                del lengths[len(pattern.name)]

    # --- one resource ---

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool | None:
        """Return whether ACLs allow `operation` on a resource; None when no ACL applies to the resource, to anybody."""
        sources = self._applying(resource_type, name)
        if not sources:
            return None
        allowing = {operation, Operation.ALL} | IMPLIED_BY.get(operation, frozenset())
        is_allowed = False
        for entries in sources:
            for entry in entries:
                if entry.principal not in (principal, EVERYBODY) or entry.host not in (host, WILDCARD):
                    continue
                if entry.permission == PermissionType.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return False
                elif entry.operation in allowing:
                    is_allowed = True
        return is_allowed

    def denying(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> AclBinding | None:
        """Return a DENY that forbids `operation` on a resource, if there is one."""
        patterns = [ResourcePattern(resource_type, each, PatternType.LITERAL) for each in (name, WILDCARD)]
        patterns += (
            ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            for length in sorted(self._prefix_lengths.get(resource_type, ()), reverse=True)
        )
        questions = product((principal, EVERYBODY), (host, WILDCARD), (operation, Operation.ALL))
        denials = [AclEntry(who, where, what, PermissionType.DENY) for who, where, what in questions]
        return next(
            (AclBinding(each, denial) for each in patterns for denial in denials if denial in self.entries(each)), None
        )

    def _applying(self, resource_type: ResourceType, name: str) -> list[frozenset[AclEntry]]:
        literal, prefixed = self._literal[resource_type], self._prefixed[resource_type]
        found = [literal.get(WILDCARD), literal.get(name)]
        if prefixed:
            found += [prefixed.get(name[:length]) for length in self._prefix_lengths[resource_type]]
        return [entries for entries in found if entries is not None]

    # --- any resource of a type ---

    def denies_all(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether a DENY with the name `*` forbids `operation` on every resource of a type."""
        denied = self._named(PermissionType.DENY, principal, host, operation, resource_type, PatternType.LITERAL)
        return any(WILDCARD in names for names in denied)

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there can be a resource of a type on which ACLs allow `operation`: one that an ALLOW is about, and
        no DENY. Here, no operation implies another."""

        def named(permission: PermissionType, pattern_type: PatternType) -> _Names:
            return self._named(permission, principal, host, operation, resource_type, pattern_type)

        denied = named(PermissionType.DENY, PatternType.LITERAL)
        denied_prefixes = named(PermissionType.DENY, PatternType.PREFIXED)
        if any(WILDCARD in names for names in denied):
            return False

        def is_denied(name: str) -> bool:
            beginnings = (name[:length] for length in range(1, len(name) + 1))
            return any(prefix in names for prefix in beginnings for names in denied_prefixes)

        if any(
            not is_denied(prefix) for names in named(PermissionType.ALLOW, PatternType.PREFIXED) for prefix in names
        ):
            return True
        return any(
            name == WILDCARD or not (any(name in each for each in denied) or is_denied(name))
            for names in named(PermissionType.ALLOW, PatternType.LITERAL)
            for name in names
        )

    def _named(
        self,
        permission: PermissionType,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        pattern_type: PatternType,
    ) -> _Names:
        keys = product({principal, EVERYBODY}, {host, WILDCARD}, {operation, Operation.ALL})
        found = (
            self._names.get((AclEntry(who, where, what, permission), resource_type, pattern_type))
            for who, where, what in keys
        )
        return [names for names in found if names is not None]

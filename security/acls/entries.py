"""ACL bindings, and the filters that select them. Pure.

A binding gives or takes away one operation, of one principal from one host, on the resources that a pattern names. LITERAL
patterns name one resource, or with the name `*` all of a type; PREFIXED ones those whose name begins with theirs.

Invariants: a binding has no ANY and no MATCH, which are for filters only. Host and principal are compared as text, exactly; a
host is an address or `*`.
Source: Kafka AclBinding, AclBindingFilter, ResourcePatternFilter, AccessControlEntryFilter; KIP-290.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from security.access import Operation, ResourceType
from security.principal import USER_TYPE, Principal

WILDCARD = "*"
"""The name of the LITERAL pattern for all resources of a type, and the host of an entry for all addresses."""

EVERYBODY = Principal(USER_TYPE, WILDCARD)
"""The principal of an entry for all users."""

ANY = 1
"""In a filter: the code that selects every type, operation or permission."""


class PermissionType(IntEnum):
    """The codes of Kafka's ACL requests."""

    DENY = 2
    ALLOW = 3


class PatternType(IntEnum):
    """The codes of Kafka's ACL requests. ANY and MATCH occur in filters only: ANY selects patterns of this very name, MATCH
    those that apply to a resource of this name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def applies_to(self, resource_type: ResourceType, name: str) -> bool:
        """Return whether the resource of this type and name is one of this pattern's."""
        if self.resource_type != resource_type:
            return False
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """Who may do, or may not do, what from where."""

    principal: Principal
    host: str
    operation: Operation
    permission: PermissionType


class AclBinding(NamedTuple):
    pattern: ResourcePattern
    entry: AclEntry


class PatternFilter(NamedTuple):
    """Selects patterns. `resource_type` and `pattern_type` are codes that may be ANY; a name of None selects every name."""

    resource_type: int
    name: str | None
    pattern_type: int

    def selects(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == pattern.name
        return pattern.applies_to(pattern.resource_type, self.name)

    @property
    def named(self) -> tuple[ResourcePattern, ...]:
        """The patterns that this filter can select, when it names them: otherwise every pattern has to be checked."""
        if self.resource_type == ANY or self.name is None or self.pattern_type == PatternType.MATCH:
            return ()
        resource_type = ResourceType(self.resource_type)
        kinds = (PatternType.LITERAL, PatternType.PREFIXED)
        return tuple(
            ResourcePattern(resource_type, self.name, kind)
            for kind in kinds
            if self.pattern_type in (PatternType.ANY, kind)
        )


class EntryFilter(NamedTuple):
    """Selects entries. None selects every principal or host; `operation` and `permission` are codes that may be ANY."""

    principal: str | None
    host: str | None
    operation: int
    permission: int

    def selects(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, str(entry.principal))
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission in (ANY, entry.permission)
        )


class AclFilter(NamedTuple):
    """Selects bindings."""

    patterns: PatternFilter
    entries: EntryFilter

    def selects(self, binding: AclBinding) -> bool:
        return self.patterns.selects(binding.pattern) and self.entries.selects(binding.entry)

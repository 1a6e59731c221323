"""One ACL in a line of words, as tests give them. Pure.

    alice read topic orders              alice may read the topic orders
    alice write topic orders-*           ... every topic whose name begins with orders-
    bob all group *                      ... everything with every group
    deny bob read topic secrets          bob may not, whatever else he may
    alice idempotent-write cluster       ... on the cluster, which has no name

Rules: a user of `*` is everybody. Words may have any case, and `-` and `_` are the same in them. Hosts are not limited.
Source: the options of kafka-acls.sh.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from runtime.suggestions import did_you_mean
from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.entries import WILDCARD, AclBinding, AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import USER_TYPE, Principal

_DENY = "deny"
_FORM = "[deny] USER OPERATION TYPE [NAME]"

Code = TypeVar("Code", bound=IntEnum)


def binding_of_words(line: str) -> AclBinding:
    """Return the ACL. Raises ValueError."""
    words = line.split()
    permission = PermissionType.ALLOW
    if words and words[0].lower() == _DENY:
        permission, words = PermissionType.DENY, words[1:]
    if len(words) not in (3, 4):
        raise ValueError(f"ACL {line!r} is not of the form {_FORM}")
    user, operation, kind, *names = words
    resource_type = _code(ResourceType, kind, line)
    if names == [] and resource_type is not ResourceType.CLUSTER:
        raise ValueError(f"ACL {line!r} names no {kind}: the form is {_FORM}")
    name, pattern_type = (names or [CLUSTER_NAME])[0], PatternType.LITERAL
    if name.endswith(WILDCARD) and name != WILDCARD:
        name, pattern_type = name[:-1], PatternType.PREFIXED
    entry = AclEntry(Principal(USER_TYPE, user), WILDCARD, _code(Operation, operation, line), permission)
    return AclBinding(ResourcePattern(resource_type, name, pattern_type), entry)


def _code(codes: type[Code], word: str, line: str) -> Code:
    """Return the one with this name. Raises ValueError."""
    names = {code.name.lower().replace("_", "-"): code for code in codes}
    asked = word.lower().replace("_", "-")
    if asked not in names:
        kind = "operation" if codes is Operation else "type of resource"
        raise ValueError(f"ACL {line!r}: there is no {kind} {word!r}{did_you_mean(asked, names)}")
    return names[asked]

from __future__ import annotations

import pytest

from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.entries import AclBinding, AclEntry, PatternType, PermissionType, ResourcePattern
from security.acls.words import binding_of_words
from security.principal import Principal

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("line", "user", "permission", "operation", "kind", "name", "pattern"),
    [
        ("alice read topic orders", "alice", ALLOW, Operation.READ, ResourceType.TOPIC, "orders", LITERAL),
        ("alice WRITE Topic orders-*", "alice", ALLOW, Operation.WRITE, ResourceType.TOPIC, "orders-", PREFIXED),
        ("deny bob all group *", "bob", DENY, Operation.ALL, ResourceType.GROUP, "*", LITERAL),
        ("* describe transactional_id t", "*", ALLOW, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t", LITERAL),
        ("a idempotent-write cluster", "a", ALLOW, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, LITERAL),
    ],
)  # fmt: skip
def test_a_line_is_one_acl(
    line: str, user: str, permission: PermissionType, operation: Operation, kind: ResourceType, name: str,
    pattern: PatternType,
) -> None:  # fmt: skip
    entry = AclEntry(Principal("User", user), "*", operation, permission)
    assert binding_of_words(line) == AclBinding(ResourcePattern(kind, name, pattern), entry)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", r"is not of the form \[deny\] USER OPERATION TYPE \[NAME\]"),
        ("alice read", "is not of the form"),
        ("alice read topic", "names no topic"),
        ("alice red topic t", r"there is no operation 'red': did you mean read\?"),
        ("alice read topics t", r"there is no type of resource 'topics': did you mean topic\?"),
    ],
)
def test_a_line_that_is_none_says_why(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        binding_of_words(line)

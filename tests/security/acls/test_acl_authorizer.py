"""Decisions by ACLs: rules one by one, and equality with a model that looks at every ACL each time."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.access import Operation, ResourceType
from security.acls import acl_authorizer
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclBinding, AclEntry, PatternType, PermissionType, ResourcePattern
from security.acls.index import AclIndex
from security.principal import Principal

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ALICE, BOB, EVERYBODY = Principal("User", "alice"), Principal("User", "bob"), Principal("User", "*")
HOST = "10.0.0.1"


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: PermissionType = ALLOW,
    *,
    principal: Principal = ALICE,
    host: str = "*",
    pattern_type: PatternType = LITERAL,
    resource_type: ResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(resource_type, name, pattern_type), AclEntry(principal, host, operation, permission)
    )


def authorizer(*bindings: AclBinding, super_users: tuple[Principal, ...] = (), without: bool = False) -> AclAuthorizer:
    made = AclAuthorizer(super_users, allows_without_acl=without)
    for binding in bindings:
        made.replace(binding.pattern, made.acls.entries(binding.pattern) | {binding.entry})
    return made


@pytest.mark.parametrize(
    ("bindings", "operation", "name", "is_allowed"),
    [
        ([], Operation.READ, "orders", False),
        ([acl()], Operation.READ, "orders", True),
        ([acl()], Operation.READ, "orders-2", False),
        ([acl()], Operation.WRITE, "orders", False),
        ([acl(principal=BOB)], Operation.READ, "orders", False),
        ([acl(principal=EVERYBODY)], Operation.READ, "orders", True),
        ([acl(principal=Principal("Group", "*"))], Operation.READ, "orders", False),
        ([acl(host=HOST)], Operation.READ, "orders", True),
        ([acl(host="10.0.0.2")], Operation.READ, "orders", False),
        ([acl("*")], Operation.READ, "orders", True),
        ([acl("ord", pattern_type=PREFIXED)], Operation.READ, "orders", True),
        ([acl("orders", pattern_type=PREFIXED)], Operation.READ, "orders", True),
        ([acl("orders-", pattern_type=PREFIXED)], Operation.READ, "orders", False),
        ([acl("*", pattern_type=PREFIXED)], Operation.READ, "orders", False),
        ([acl(operation=Operation.ALL)], Operation.WRITE, "orders", True),
        ([acl(resource_type=ResourceType.GROUP)], Operation.READ, "orders", False),
        ([acl(), acl("*", permission=DENY)], Operation.READ, "orders", False),
        ([acl(), acl("o", permission=DENY, pattern_type=PREFIXED)], Operation.READ, "orders", False),
        ([acl(), acl(permission=DENY, operation=Operation.ALL)], Operation.READ, "orders", False),
        ([acl(), acl(permission=DENY, principal=BOB)], Operation.READ, "orders", True),
        ([acl(), acl(permission=DENY, host="10.0.0.2")], Operation.READ, "orders", True),
        ([acl(), acl(permission=DENY, operation=Operation.WRITE)], Operation.DESCRIBE, "orders", True),
        ([acl(), acl(permission=DENY, operation=Operation.DESCRIBE)], Operation.DESCRIBE, "orders", False),
        ([acl(), acl(permission=DENY, operation=Operation.DESCRIBE)], Operation.READ, "orders", True),
    ],
)
def test_decisions(bindings: list[AclBinding], operation: Operation, name: str, is_allowed: bool) -> None:
    subject = authorizer(*bindings)
    assert subject.allows(ALICE, HOST, operation, TOPIC, name) is is_allowed
    assert subject.allows(ALICE, HOST, operation, TOPIC, name) is is_allowed, "the decision that is kept is another"


@pytest.mark.parametrize(
    ("given_operation", "implied"),
    [
        (Operation.READ, {Operation.DESCRIBE}),
        (Operation.WRITE, {Operation.DESCRIBE}),
        (Operation.DELETE, {Operation.DESCRIBE}),
        (Operation.ALTER, {Operation.DESCRIBE}),
        (Operation.ALTER_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (Operation.CREATE, set()),
        (Operation.CLUSTER_ACTION, set()),
        (Operation.DESCRIBE, set()),
        (Operation.DESCRIBE_CONFIGS, set()),
        (Operation.ALL, set(Operation)),
    ],
)
def test_implied_operations(given_operation: Operation, implied: set[Operation]) -> None:
    subject = authorizer(acl(operation=given_operation))
    allowed = {operation for operation in Operation if subject.allows(ALICE, HOST, operation, TOPIC, "orders")}
    assert allowed == implied | {given_operation}
    denied = authorizer(acl(operation=Operation.ALL), acl(operation=given_operation, permission=DENY))
    refused = {operation for operation in Operation if not denied.allows(ALICE, HOST, operation, TOPIC, "orders")}
    assert refused == (set(Operation) if given_operation is Operation.ALL else {given_operation})


def test_super_users_may_do_everything() -> None:
    subject = authorizer(acl(permission=DENY, operation=Operation.ALL, principal=EVERYBODY), super_users=(BOB,))
    assert subject.allows(BOB, HOST, Operation.DELETE, TOPIC, "orders")
    assert subject.allows_any(BOB, HOST, Operation.WRITE, TOPIC)
    assert not subject.allows(ALICE, HOST, Operation.DELETE, TOPIC, "orders")


def test_resources_without_an_acl_are_for_everybody_if_settings_say_so() -> None:
    subject = authorizer(acl(principal=BOB), without=True)
    assert subject.allows(ALICE, HOST, Operation.DELETE, TOPIC, "unknown")
    assert not subject.allows(ALICE, HOST, Operation.READ, TOPIC, "orders"), "somebody has an ACL for it"
    assert subject.allows_any(ALICE, HOST, Operation.WRITE, TOPIC)
    subject = authorizer(acl("*", Operation.WRITE, DENY), without=True)
    assert not subject.allows_any(ALICE, HOST, Operation.WRITE, TOPIC)


@pytest.mark.parametrize(
    ("bindings", "is_allowed"),
    [
        ([], False),
        ([acl()], True),
        ([acl("ord", pattern_type=PREFIXED)], True),
        ([acl(operation=Operation.ALL)], True),
        ([acl(), acl(permission=DENY)], False),
        ([acl(), acl("*", permission=DENY)], False),
        ([acl(), acl("o", permission=DENY, pattern_type=PREFIXED)], False),
        ([acl(), acl("orders-", permission=DENY, pattern_type=PREFIXED)], True),
        ([acl("ord", pattern_type=PREFIXED), acl("o", permission=DENY, pattern_type=PREFIXED)], False),
        ([acl("ord", pattern_type=PREFIXED), acl("orders", permission=DENY, pattern_type=PREFIXED)], True),
        ([acl("*"), acl("o", permission=DENY, pattern_type=PREFIXED)], True),
        ([acl("*"), acl("orders", permission=DENY)], True),
    ],
)
def test_any_resource(bindings: list[AclBinding], is_allowed: bool) -> None:
    subject = authorizer(*bindings)
    assert subject.allows_any(ALICE, HOST, Operation.READ, TOPIC) is is_allowed
    assert not authorizer(acl()).allows_any(ALICE, HOST, Operation.DESCRIBE, TOPIC), "an operation was implied"


def test_a_change_is_in_force_at_once() -> None:
    subject = authorizer()
    pattern, entry = acl()
    for has_acl in (False, True, False, True):
        subject.replace(pattern, {entry} if has_acl else ())
        assert subject.allows(ALICE, HOST, Operation.READ, TOPIC, "orders") is has_acl
        assert subject.allows_any(ALICE, HOST, Operation.READ, TOPIC) is has_acl
        assert len(subject.acls) == has_acl


def test_decisions_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_authorizer, "DECISIONS_MAX", 10)
    subject = authorizer(acl("topic-", pattern_type=PREFIXED))
    for number in range(100):
        assert subject.allows(ALICE, HOST, Operation.READ, TOPIC, f"topic-{number}")
        assert len(subject._decisions) <= 10
    kept = dict(subject._decisions)
    assert subject.allows(ALICE, HOST, Operation.READ, TOPIC, "topic-" + "x" * 1000)
    assert subject._decisions == kept, "a long name is kept"


# --- equality with a model ---

NAMES = st.sampled_from(["*", "a", "ab", "abc", "abd", "b", "ba"])
PRINCIPALS = st.sampled_from([ALICE, BOB, EVERYBODY])
HOSTS = st.sampled_from([HOST, "10.0.0.2", "*"])
OPERATIONS = st.sampled_from(list(Operation))
BINDINGS = st.builds(
    AclBinding,
    st.builds(
        ResourcePattern, st.sampled_from([TOPIC, ResourceType.GROUP]), NAMES, st.sampled_from([LITERAL, PREFIXED])
    ),
    st.builds(AclEntry, PRINCIPALS, HOSTS, OPERATIONS, st.sampled_from([ALLOW, DENY])),
)
CHANGES = st.lists(st.tuples(st.booleans(), BINDINGS), max_size=30)

IMPLIES_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}


def by_model(acls: set[AclBinding], principal: Principal, operation: Operation, name: str, *, without: bool) -> bool:
    """As the documentation of Kafka's ACLs says it, ACL by ACL."""
    about = [
        entry
        for pattern, entry in acls
        if pattern.resource_type is TOPIC
        and (name.startswith(pattern.name) if pattern.pattern_type is PREFIXED else pattern.name in ("*", name))
    ]
    if not about:
        return without
    mine = [entry for entry in about if entry.principal in (principal, EVERYBODY) and entry.host in (HOST, "*")]
    if any(entry.permission is DENY and entry.operation in (operation, Operation.ALL) for entry in mine):
        return False
    enough = {operation, Operation.ALL}
    if operation is Operation.DESCRIBE:
        enough |= IMPLIES_DESCRIBE
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(entry.permission is ALLOW and entry.operation in enough for entry in mine)


@given(CHANGES, st.booleans())
def test_decisions_equal_those_of_a_model_after_every_change(
    changes: list[tuple[bool, AclBinding]], without: bool
) -> None:
    subject, acls = authorizer(without=without), set[AclBinding]()
    for is_there, binding in changes:
        (acls.add if is_there else acls.discard)(binding)
        of_pattern = {entry for pattern, entry in acls if pattern == binding.pattern}
        subject.replace(binding.pattern, of_pattern)
        assert set(subject.acls) == acls
        assert len(subject.acls) == len(acls)
        for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS):
            for name in ("a", "abc", "b", "x"):
                expected = by_model(acls, ALICE, operation, name, without=without)
                assert subject.allows(ALICE, HOST, operation, TOPIC, name) is expected


@given(st.lists(BINDINGS, max_size=12), OPERATIONS)
def test_any_resource_equals_trying_many(bindings: list[AclBinding], operation: Operation) -> None:
    """An ALLOW for `*` leaves names that no DENY is about. Implied operations do not count, so both are left out."""
    if operation in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS):
        return
    subject = authorizer(*bindings)
    names = ["a", "ab", "abc", "abcz", "abd", "abz", "az", "b", "ba", "baz", "bz", "x", "*", "*z"]
    by_trying = any(subject.allows(ALICE, HOST, operation, TOPIC, name) for name in names)
    assert subject.allows_any(ALICE, HOST, operation, TOPIC) is by_trying


@given(st.lists(BINDINGS, max_size=20))
def test_nothing_is_left_when_everything_is_removed(bindings: list[AclBinding]) -> None:
    index = AclIndex()
    for pattern, entry in bindings:
        index.replace(pattern, index.entries(pattern) | {entry})
    for pattern in list(index.patterns):
        assert index.replace(pattern, ())
        assert not index.replace(pattern, ())
    assert len(index) == 0
    assert not list(islice(index, 1))
    assert not index._names
    assert not any(index._prefix_lengths.values())


def test_changes_are_counted_and_what_changes_nothing_is_none() -> None:
    made = authorizer()
    assert made.changes_count == 0
    binding = acl()
    for _ in range(2):
        made.replace(binding.pattern, [binding.entry])
        assert made.changes_count == 1
    made.replace(binding.pattern, [])
    assert made.changes_count == 2

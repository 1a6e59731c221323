"""What is said about a denial, by resource, operation, principal and cause."""

from __future__ import annotations

import pytest

from security.access import CLUSTER_NAME, Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclBinding, AclEntry, PatternType, PermissionType, ResourcePattern
from security.denial import NAME_CHARACTERS_MAX, Cause, Denied, client_text, resolution
from security.principal import ANONYMOUS, Principal

ALICE, EVERYBODY = Principal("User", "alice"), Principal("User", "*")
HOST = "10.0.0.1"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def denied(
    operation: Operation = Operation.READ,
    resource_type: ResourceType = TOPIC,
    name: str = "orders",
    principal: Principal = ALICE,
) -> Denied:
    return Denied(principal, HOST, operation, resource_type, name)


@pytest.mark.parametrize(
    ("one", "right", "command"),
    [
        (denied(), "READ on the topic orders", "--operation read --topic orders"),
        (denied(Operation.ALTER_CONFIGS), "ALTER_CONFIGS on the topic orders", "--operation alter-configs --topic orders"),
        (denied(Operation.READ, GROUP, "g 1"), "READ on the group g 1", "--operation read --group 'g 1'"),
        (denied(Operation.READ, GROUP, "a;b"), "READ on the group a;b", "--operation read --group 'a;b'"),
        (denied(Operation.ALTER, CLUSTER, CLUSTER_NAME), "ALTER on the cluster", "--operation alter --cluster"),
        (denied(Operation.WRITE, name=""), "WRITE on any topic", "--operation write --topic NAME"),
        (denied(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx"), "WRITE on the transactional id tx",
         "--operation write --transactional-id tx"),
        (denied(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "i"), "DESCRIBE on the delegation token i",
         "--operation describe --delegation-token i"),
        (denied(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"), "CREATE_TOKENS on the user User:bob",
         "--operation create-tokens --user-principal User:bob"),
    ],
)  # fmt: skip
def test_the_right_and_the_command_that_gives_it(one: Denied, right: str, command: str) -> None:
    whole = f"barnabas acls add --allow-principal User:alice {command}"
    assert resolution(one, Cause()) == whole
    assert client_text(one, Cause()) == f"User:alice needs the right {right}. An administrator gives it by: {whole}"


def test_who_has_not_logged_in_gets_it_for_one_address() -> None:
    assert resolution(denied(principal=ANONYMOUS), Cause()) == (
        f"barnabas acls add --allow-principal User:ANONYMOUS --allow-host {HOST} --operation read --topic orders"
    )


def test_nothing_is_told_of_a_topic_that_may_not_be_known_nor_of_names_that_are_too_long() -> None:
    assert client_text(denied(), Cause(is_visible=False)) == ""
    assert resolution(denied(), Cause(is_visible=False)) != "", "the log is for administrators"
    long = "x" * (NAME_CHARACTERS_MAX + 1)
    for one in (denied(name=long), denied(principal=Principal("User", long))):
        assert client_text(one, Cause()) == resolution(one, Cause()) == ""


def binding(
    permission: PermissionType,
    operation: Operation,
    name: str = "orders",
    *,
    principal: Principal = ALICE,
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(ResourcePattern(TOPIC, name, pattern_type), AclEntry(principal, host, operation, permission))


ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


@pytest.mark.parametrize(
    ("acls", "operation", "is_visible", "denying"),
    [
        ([], Operation.READ, False, None),
        ([], Operation.CREATE, True, None),
        ([binding(ALLOW, Operation.DESCRIBE)], Operation.READ, True, None),
        ([binding(ALLOW, Operation.WRITE)], Operation.READ, True, None),
        ([binding(ALLOW, Operation.ALL, "*")], Operation.READ, True, None),
        ([binding(DENY, Operation.READ)], Operation.READ, False, 0),
        ([binding(ALLOW, Operation.ALL), binding(DENY, Operation.READ)], Operation.READ, True, 1),
        ([binding(DENY, Operation.ALL, principal=EVERYBODY, host=HOST)], Operation.READ, False, 0),
        ([binding(DENY, Operation.READ, "*")], Operation.READ, False, 0),
        ([binding(DENY, Operation.READ, "ord", pattern_type=PatternType.PREFIXED)], Operation.READ, False, 0),
        ([binding(DENY, Operation.READ, "orders-", pattern_type=PatternType.PREFIXED)], Operation.READ, False, None),
        ([binding(DENY, Operation.WRITE)], Operation.READ, False, None),
        ([binding(DENY, Operation.READ, host="10.0.0.2")], Operation.READ, False, None),
    ],
)
def test_the_cause_is_an_acl_that_denies_or_one_that_is_missing(
    acls: list[AclBinding], operation: Operation, is_visible: bool, denying: int | None
) -> None:
    authorizer = AclAuthorizer()
    for each in acls:
        authorizer.replace(each.pattern, authorizer.acls.entries(each.pattern) | {each.entry})
    cause = authorizer.cause(denied(operation))
    assert cause == Cause(is_visible, None if denying is None else acls[denying])
    assert authorizer.decided_count == authorizer.denied_count == 0


def test_an_acl_that_denies_is_removed_by_its_own_words() -> None:
    cause = Cause(binding=binding(DENY, Operation.ALL, "ord", principal=EVERYBODY, pattern_type=PatternType.PREFIXED))
    assert resolution(denied(), cause) == (
        "barnabas acls remove --deny-principal 'User:*' --deny-host '*' --operation all --topic ord "
        "--resource-pattern-type prefixed --execute"
    )
    assert client_text(denied(), cause) == (
        "An ACL denies User:alice the right READ on the topic orders. An administrator sees it by: "
        "barnabas acls list --topic orders --resource-pattern-type match"
    )

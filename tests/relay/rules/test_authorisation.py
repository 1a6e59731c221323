"""Which rules hold by which ACLs, and which requests tell the ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from client.admin.acls import AclWords
from client.admin.steps import AskPlaces, Place
from config.acl_settings import AclSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from relay.rules.authorisation import HIDDEN, judged, verdicts
from relay.rules.rule import Rule, RuleKind
from security.access import Operation, ResourceType
from security.acls.entries import PatternType, PermissionType

ALICE = "User:alice"
RULE = Rule("in", RuleKind.DELAY, "out", principal=ALICE)
CLOSED = AclSettings()


def acl(words: str, host: str = "*") -> AclWords:
    """`[deny] PRINCIPAL OPERATION TOPIC`; a topic that ends with `-` is a prefix."""
    *denies, principal, operation, topic = words.split()
    pattern = "prefixed" if topic.endswith("-") else "literal"
    return AclWords("topic", topic, pattern, f"User:{principal}", host, operation, "deny" if denies else "allow")


READ, WRITE = acl("alice read in"), acl("alice write out")
LACKS_BOTH = "User:alice has not Read on topic in, Write on topic out"
LACKS_WRITE = "User:alice has not Write on topic out"


@pytest.mark.parametrize(
    ("acls", "verdict"),
    [
        ([], LACKS_BOTH),
        ([READ, WRITE], None),
        ([READ], LACKS_WRITE),
        ([acl("alice all in"), acl("alice all out")], None),
        ([acl("alice all *")], None),
        ([acl("* read in"), acl("* write out")], None),
        ([acl("bob all *")], LACKS_BOTH),
        ([READ, WRITE, acl("deny alice write *")], LACKS_WRITE),
        ([READ, WRITE, acl("deny * all out")], LACKS_WRITE),
        ([READ, WRITE, acl("deny bob all *")], None),
        ([READ, acl("alice write out", "10.0.0.1")], LACKS_WRITE),
        ([READ, WRITE, acl("deny alice write out", "10.0.0.1")], LACKS_WRITE),
        ([READ, AclWords("group", "out", "literal", ALICE, "*", "write", "allow")], LACKS_WRITE),
        ([READ, WRITE, AclWords("topic", "out", "unknown", ALICE, "*", "write", "deny")], None),
        ([READ, WRITE, AclWords("topic", "out", "literal", ALICE, "*", "unknown", "deny")], None),
    ],
)
def test_the_principal_of_a_rule_must_be_allowed_what_the_rule_does(acls: list[AclWords], verdict: str | None) -> None:
    assert verdicts([RULE], acls, CLOSED) == {RULE: verdict}


def test_every_topic_that_a_rule_names_counts() -> None:
    rule = Rule("in", RuleKind.RETRY, "out", 0, (1,), dead_letters="dead-1", results="told", principal=ALICE)
    assert verdicts([rule], [READ, WRITE], CLOSED) == {
        rule: "User:alice has not Write on topic dead-1, Write on topic told"
    }
    assert verdicts([rule], [READ, WRITE, acl("alice write dead-"), acl("alice write told")], CLOSED) == {rule: None}


def test_settings_of_the_authorizer_count() -> None:
    assert verdicts([RULE], [], AclSettings(("User:alice",))) == {RULE: None}
    open_without = AclSettings(allows_without_acl=True)
    assert verdicts([RULE], [], open_without) == {RULE: None}
    assert verdicts([RULE], [acl("bob write out", "10.0.0.1")], open_without) == {RULE: LACKS_WRITE}
    nobody = Rule("in", RuleKind.DELAY, "out")
    assert verdicts([nobody], [], open_without) == {nobody: "it names no principal, and the cluster has an authorizer"}


def ask(rules: list[Rule], answers: dict[str, Any]) -> dict[Rule, str | None]:
    """Judge by the answers to the filters of these names."""
    steps = judged(rules, CLOSED)
    step = next(steps)
    while True:
        assert isinstance(step, AskPlaces)
        request = step.requests[Place.ANY]
        assert isinstance(request, DescribeAclsRequest)
        assert (request.resource_type_filter, request.pattern_type_filter) == (ResourceType.TOPIC, PatternType.MATCH)
        try:
            step = steps.send({Place.ANY: answers[str(request.resource_name_filter)]})
        except StopIteration as end:
            return dict(end.value)


def described(topic: str, operation: Operation) -> DescribeAclsResponse:
    allowed = AclDescription(principal=ALICE, host="*", operation=operation, permission_type=PermissionType.ALLOW)
    row = DescribeAclsResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, pattern_type=PatternType.LITERAL, acls=[allowed]
    )
    return DescribeAclsResponse(throttle_time_ms=0, error_code=0, error_message=None, resources=[row])


def test_each_topic_is_asked_about_once() -> None:
    other = Rule("out", RuleKind.DELAY, "far", principal=ALICE)
    answers = {
        "in": described("in", Operation.READ),
        "out": described("out", Operation.WRITE),
        "far": described("far", Operation.WRITE),
    }
    assert ask([RULE, other], answers) == {RULE: None, other: "User:alice has not Read on topic out"}


def test_without_an_authorizer_every_rule_holds_and_other_errors_are_raised() -> None:
    assert ask([RULE], {"in": KafkaError(ErrorCode.SECURITY_DISABLED)}) == {RULE: None}
    assert ask([RULE], {"in": KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}) == {RULE: HIDDEN}
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        ask([RULE], {"in": KafkaError(ErrorCode.UNSUPPORTED_VERSION)})

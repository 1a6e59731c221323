"""CreateAcls, DescribeAcls and DeleteAcls, of a super user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.differential.play import ACLS, Run, case

UNKNOWN, ANY = 0, 1
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 8, 9
OPERATIONS = range(2, 15)
DENY, ALLOW = 2, 3
NOBODY_KNOWS = (-1, 15, 99, 127)


class Acl(NamedTuple):
    name: str = "t"
    principal: str = "User:a"
    operation: int = READ
    permission: int = ALLOW
    host: str = "*"
    kind: int = TOPIC
    pattern: int = LITERAL


class Filter(NamedTuple):
    kind: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY


def creating(*acls: Acl) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.kind,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )


def describing(by: Filter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=by.kind,
        resource_name_filter=by.name,
        pattern_type_filter=by.pattern,
        principal_filter=by.principal,
        host_filter=by.host,
        operation=by.operation,
        permission_type=by.permission,
    )


def deleting(*filters: Filter) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=by.kind,
                resource_name_filter=by.name,
                pattern_type_filter=by.pattern,
                principal_filter=by.principal,
                host_filter=by.host,
                operation=by.operation,
                permission_type=by.permission,
            )
            for by in filters
        ]
    )


def in_order(answer: DescribeAclsResponse | DeleteAclsResponse) -> None:
    """Apache Kafka answers in the order of its hash maps."""
    if isinstance(answer, DescribeAclsResponse):
        for resource in answer.resources:
            resource.acls.sort(key=repr)
        answer.resources.sort(key=repr)
    else:
        for result in answer.filter_results:
            result.matching_acls.sort(key=repr)


def described(run: Run, by: Filter) -> None:
    run.ask(
        describing(by), 3 if by.pattern != LITERAL or run.case.api is not DescribeAclsRequest else None, pick=in_order
    )


def own(run: Run, acl: Acl) -> Acl:
    """As `acl`, with a name and a principal that no other case has."""
    name = acl.name if acl.kind == CLUSTER or acl.name == "*" else run.name(acl.name)
    return acl._replace(name=name, principal=f"User:{run.name(acl.principal.removeprefix('User:'))}")


def given(run: Run, acls: Sequence[Acl]) -> list[Acl]:
    """Create ACLs of this run."""
    mine = [own(run, acl) for acl in acls]
    results = run.do(creating(*mine)).results
    assert [result.error_code for result in results] == [0] * len(mine), results
    return mine


# --- CreateAcls ---


@case(CreateAclsRequest, "normal", stage=ACLS)
def an_acl_of_every_type(run: Run) -> None:
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER)
    mine = [own(run, Acl(kind=kind)) for kind in kinds] + [own(run, Acl("kafka-cluster", kind=CLUSTER))]
    run.ask(creating(*mine))
    described(run, Filter(principal=mine[0].principal))


@case(CreateAclsRequest, "normal", "1+", stage=ACLS)
def prefixed_patterns(run: Run) -> None:
    mine = [own(run, Acl(pattern=PREFIXED)), own(run, Acl("kafka-cluster", kind=CLUSTER, pattern=PREFIXED))]
    run.ask(creating(*mine))
    described(run, Filter(principal=mine[0].principal))


@case(CreateAclsRequest, "normal", stage=ACLS)
def every_operation(run: Run) -> None:
    mine = [own(run, Acl(operation=each, permission=of)) for each in OPERATIONS for of in (ALLOW, DENY)]
    run.ask(creating(*mine))
    described(run, Filter(principal=mine[0].principal))


@case(CreateAclsRequest, "edge", stage=ACLS)
def the_same_again_and_twice(run: Run) -> None:
    one, other = own(run, Acl()), own(run, Acl(operation=WRITE))
    run.ask(creating(one))
    run.ask(creating(one, other, one, other))
    run.ask(creating())
    described(run, Filter(principal=one.principal))


@case(CreateAclsRequest, "edge", stage=ACLS)
def unusual_names_and_hosts(run: Run) -> None:
    names = ["a b~é", "x" * 300, "-", "a:b", "%2F"]
    mine = [own(run, Acl(name)) for name in names]
    mine += [own(run, Acl())._replace(host=host) for host in ("", "no such host", "10.0.0.0/8", "::1")]
    mine += [Acl(run.name("p"), principal) for principal in (":", "User:", "Group:g", "User:a:b", "user:a", "User:é")]
    run.ask(creating(*mine))
    described(run, Filter(kind=TOPIC, name=run.name("t"), pattern=LITERAL))
    described(run, Filter(kind=TOPIC, name=run.name("p"), pattern=LITERAL))
    described(run, Filter(TOPIC, mine[0].name, MATCH, mine[0].principal))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def names_that_cannot_be(run: Run) -> None:
    good = own(run, Acl())
    run.ask(creating(good._replace(name="")))
    run.ask(creating(good._replace(name="a/b"), good, good._replace(name="/")))
    for name in ("other", "", "*", "kafka"):
        run.ask(creating(good._replace(kind=CLUSTER, name=name)))
    described(run, Filter(principal=good.principal))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def names_that_the_store_refuses(run: Run) -> None:
    good = own(run, Acl())
    run.ask(creating(*(good._replace(name=name) for name in (".", "..", "a\x00b", "a\x1fb", "a\x7fb", "\ue000"))))
    described(run, Filter(principal=good.principal))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def principals_without_a_type(run: Run) -> None:
    run.ask(creating(Acl(run.name("t"), "alice")))
    run.ask(creating(Acl(run.name("t"), "")))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def codes_that_nobody_knows(run: Run) -> None:
    good = own(run, Acl())
    for code in NOBODY_KNOWS:
        run.ask(creating(good._replace(kind=code), good._replace(operation=code), good._replace(permission=code)))
    described(run, Filter(principal=good.principal))


@case(CreateAclsRequest, "wrong", "1+", stage=ACLS)
def patterns_that_nobody_knows(run: Run) -> None:
    run.ask(creating(*(own(run, Acl(pattern=code)) for code in NOBODY_KNOWS)))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def codes_of_filters(run: Run) -> None:
    good = own(run, Acl())
    run.ask(creating(good._replace(kind=ANY), good))
    run.ask(creating(good._replace(operation=ANY)))
    run.ask(creating(good._replace(permission=ANY)))
    described(run, Filter(principal=good.principal))


@case(CreateAclsRequest, "wrong", "1+", stage=ACLS)
def patterns_of_filters(run: Run) -> None:
    run.ask(creating(own(run, Acl(pattern=ANY))))
    run.ask(creating(own(run, Acl(pattern=MATCH))))


@case(CreateAclsRequest, "wrong", stage=ACLS)
def unknown_types(run: Run) -> None:
    good = own(run, Acl())
    unknown = [good._replace(kind=UNKNOWN), good._replace(operation=UNKNOWN), good._replace(permission=UNKNOWN)]
    for each in unknown:
        run.ask(creating(good, each), wire=run.connect())
    if run.version:
        run.ask(creating(good._replace(pattern=UNKNOWN)), wire=run.connect())
    described(run, Filter(principal=good.principal))


@case(CreateAclsRequest, "wrong")
def without_an_authorizer(run: Run) -> None:
    run.ask(creating(Acl(), Acl("other", "nonsense")))
    run.ask(creating())


# --- DescribeAcls ---


def example(run: Run) -> list[Acl]:
    """An ACL for each of several situations."""
    return given(
        run,
        [
            Acl(), Acl(operation=WRITE), Acl(permission=DENY, host="10.0.0.1"), Acl(principal="User:b"), Acl("u"),
            Acl("t", pattern=PREFIXED), Acl("t-", pattern=PREFIXED), Acl("*", operation=DESCRIBE), Acl("t", kind=GROUP),
            Acl("t", kind=GROUP, pattern=PREFIXED, operation=ALL),
        ],
    )  # fmt: skip


@case(DescribeAclsRequest, "normal", stage=ACLS)
def by_name(run: Run) -> None:
    mine = example(run)
    for kind in (TOPIC, GROUP, ANY, USER):
        described(run, Filter(kind, run.name("t"), LITERAL))
        described(run, Filter(kind, None, LITERAL, mine[0].principal))
    described(run, Filter(TOPIC, "*", LITERAL, mine[0].principal))


@case(DescribeAclsRequest, "normal", "1+", stage=ACLS)
def by_pattern(run: Run) -> None:
    mine = example(run)
    for kind in (TOPIC, GROUP, ANY):
        for pattern in (ANY, MATCH, LITERAL, PREFIXED):
            for name in (run.name("t"), run.name("t-2"), run.name(""), "*", None):
                described(run, Filter(kind, name, pattern, mine[0].principal))


@case(DescribeAclsRequest, "normal", stage=ACLS)
def by_entry(run: Run) -> None:
    mine = example(run)
    a, b = mine[0].principal, mine[3].principal
    name = run.name("t")
    for host in (None, "*", "10.0.0.1", "10.0.0.2", ""):
        described(run, Filter(TOPIC, name, LITERAL, a, host))
    for operation in OPERATIONS:
        described(run, Filter(TOPIC, name, LITERAL, a, None, operation))
    for permission in (DENY, ALLOW):
        described(run, Filter(TOPIC, name, LITERAL, None, None, ANY, permission))
    for principal in (b, "User:*", "nonsense", ""):
        described(run, Filter(TOPIC, name, LITERAL, principal))


@case(DescribeAclsRequest, "edge", stage=ACLS)
def codes_that_nobody_knows_select_nothing(run: Run) -> None:
    mine = example(run)
    by = Filter(TOPIC, run.name("t"), LITERAL, mine[0].principal)
    for code in NOBODY_KNOWS:
        described(run, by._replace(kind=code))
        described(run, by._replace(operation=code))
        described(run, by._replace(permission=code))
        if run.version:
            run.ask(describing(by._replace(pattern=code)), pick=in_order)
    for name in ("", "a/b", "."):
        described(run, by._replace(name=name))


@case(DescribeAclsRequest, "wrong", stage=ACLS)
def _unknown_types(run: Run) -> None:
    by = Filter(TOPIC, run.name("t"), LITERAL)
    for each in (by._replace(kind=UNKNOWN), by._replace(operation=UNKNOWN), by._replace(permission=UNKNOWN)):
        run.ask(describing(each), wire=run.connect())
    if run.version:
        run.ask(describing(by._replace(pattern=UNKNOWN)), wire=run.connect())


@case(DescribeAclsRequest, "wrong")
def _without_an_authorizer(run: Run) -> None:
    run.ask(describing(Filter(pattern=LITERAL)))


# --- DeleteAcls ---


@case(DeleteAclsRequest, "normal", stage=ACLS)
def of_a_name(run: Run) -> None:
    mine = example(run)
    run.ask(deleting(Filter(TOPIC, run.name("t"), LITERAL, mine[0].principal, None, WRITE)), pick=in_order)
    described(run, Filter(principal=mine[0].principal))
    run.ask(deleting(Filter(TOPIC, run.name("t"), LITERAL)), pick=in_order)
    run.ask(deleting(Filter(TOPIC, run.name("t"), LITERAL)), pick=in_order)
    described(run, Filter(principal=mine[0].principal))
    described(run, Filter(principal=mine[3].principal))


@case(DeleteAclsRequest, "normal", "1+", stage=ACLS)
def of_patterns(run: Run) -> None:
    mine = example(run)
    principal = mine[0].principal
    run.ask(deleting(Filter(GROUP, run.name("t"), ANY, principal)), pick=in_order)
    run.ask(deleting(Filter(TOPIC, run.name("t-2"), MATCH, principal)), pick=in_order)
    described(run, Filter(principal=principal))
    run.ask(deleting(Filter(TOPIC, None, PREFIXED, principal)), pick=in_order)
    run.ask(deleting(Filter(ANY, None, ANY, principal)), pick=in_order)
    described(run, Filter(principal=principal))


@case(DeleteAclsRequest, "edge", stage=ACLS)
def with_several_filters(run: Run) -> None:
    mine = example(run)
    by = Filter(TOPIC, run.name("t"), LITERAL, mine[0].principal)
    filters = [
        by._replace(operation=WRITE),
        by,
        by,
        by._replace(name=run.name("none")),
        by._replace(name=run.name("u")),
    ]
    run.ask(deleting(*filters), pick=in_order)
    run.ask(deleting(), pick=in_order)
    described(run, Filter(principal=mine[0].principal))


@case(DeleteAclsRequest, "edge", stage=ACLS)
def codes_that_nobody_knows_delete_nothing(run: Run) -> None:
    mine = example(run)
    by = Filter(TOPIC, run.name("t"), LITERAL, mine[0].principal)
    for code in NOBODY_KNOWS:
        run.ask(deleting(by._replace(kind=code), by._replace(operation=code), by._replace(permission=code)))
        if run.version:
            run.ask(deleting(by._replace(pattern=code)))
    for name in ("", "a/b", "/"):
        run.ask(deleting(by._replace(name=name)))
    described(run, Filter(principal=mine[0].principal))


@case(DeleteAclsRequest, "wrong", stage=ACLS)
def __unknown_types(run: Run) -> None:
    mine = example(run)
    by = Filter(TOPIC, run.name("t"), LITERAL, mine[0].principal)
    for each in (by._replace(kind=UNKNOWN), by._replace(operation=UNKNOWN), by._replace(permission=UNKNOWN)):
        run.ask(deleting(by, each), wire=run.connect())
    if run.version:
        run.ask(deleting(by, by._replace(pattern=UNKNOWN)), wire=run.connect())
    described(run, Filter(principal=mine[0].principal))


@case(DeleteAclsRequest, "wrong")
def __without_an_authorizer(run: Run) -> None:
    run.ask(deleting(Filter(pattern=LITERAL), Filter(TOPIC, "t", LITERAL)))
    run.ask(deleting())

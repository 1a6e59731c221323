"""Who may do what with rights themselves: ACLs, quotas, delegation tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from security.access import Operation, ResourceType
from tests.differential.cases import acls
from tests.differential.cases.client_quotas import PRODUCE, USER, altering, exactly
from tests.differential.cases.delegation_tokens import creating, describing, made
from tests.differential.play import Run
from tests.differential.secured import Grant, check, on_cluster, on_topic

_ALTER = {
    "may alter the cluster": on_cluster(Operation.ALTER),
    "may describe the cluster": on_cluster(Operation.DESCRIBE),
    "may alter settings": on_cluster(Operation.ALTER_CONFIGS),
    "may describe settings": on_cluster(Operation.DESCRIBE_CONFIGS),
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
}

check(
    CreateAclsRequest,
    lambda run, _: acls.creating(*(acls.Acl(name=run.name("t"), principal=f"User:{who}") for who in "ab")),
    _ALTER,
)
check(DescribeAclsRequest, lambda run, _: acls.describing(acls.Filter(principal="User:nobody")), _ALTER)
check(
    DeleteAclsRequest,
    lambda run, _: acls.deleting(*(acls.Filter(principal=f"User:{who}") for who in ("nobody", "none"))),
    _ALTER,
)
check(DescribeClientQuotasRequest, lambda run, _: exactly({USER: run.name("u")}), _ALTER)
check(
    AlterClientQuotasRequest,
    lambda run, _: altering(({USER: run.name("u")}, {PRODUCE: 1e9}), validate_only=True),
    _ALTER,
)


def _deleting(run: Run, _: Any) -> AlterUserScramCredentialsRequest:
    rows = [ScramCredentialDeletion(name=run.name(short), mechanism=1) for short in ("u", "v")]
    return AlterUserScramCredentialsRequest(deletions=rows, upsertions=[])


check(AlterUserScramCredentialsRequest, _deleting, _ALTER)
check(
    DescribeUserScramCredentialsRequest,
    lambda run, _: DescribeUserScramCredentialsRequest(users=[UserName(name=run.name("u"))]),
    _ALTER,
)


def _without_times(_: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        for row in getattr(answer, "tokens", [answer]):
            for name in (field.name for field in row.__fields__):
                if name.endswith(("timestamp", "timestamp_ms")):
                    setattr(row, name, 0)

    return pick


def _tokens(operation: Operation) -> list[Grant]:
    return [Grant(operation, ResourceType.USER, "owner", before="User:")]


check(
    CreateDelegationTokenRequest,
    lambda run, _: creating(run.name("owner")),
    {
        "may create tokens of the owner": _tokens(Operation.CREATE_TOKENS),
        "may describe tokens of the owner": _tokens(Operation.DESCRIBE_TOKENS),
        "may alter the cluster": on_cluster(Operation.ALTER),
    },
    "3+",
    pick=_without_times,
)


def _token_of_an_owner(run: Run) -> Any:
    return made(run, run.wire, run.name("owner"))


check(
    DescribeDelegationTokenRequest,
    lambda run, _: describing(run.name("owner")),
    {
        "may create tokens of the owner": _tokens(Operation.CREATE_TOKENS),
        "may describe tokens of the owner": _tokens(Operation.DESCRIBE_TOKENS),
        "may describe every token": [Grant(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "*", is_whole=True)],
        "may describe a topic": on_topic(Operation.DESCRIBE),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    prepare=_token_of_an_owner,
    pick=_without_times,
)

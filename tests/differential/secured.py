"""Cases of who may do what: one request, asked by different users in different situations.

A row of a table is an API, a request, and situations: which ACLs the user has. Every row is also asked by a user without
ACLs, by nobody (a connection that is not authenticated), and by a super user. The answers of all situations are one case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.schema import Request
from security.access import CLUSTER_NAME, Operation, ResourceType
from tests.differential.play import NEWER_SECURED, SECURED, SUPER_USER, Run, case, newer_case, password_of
from tests.differential.wire import Wire

USER = "alice"
NOBODY = "ANONYMOUS"

ANY = 1
LITERAL = 3
DENY, ALLOW = 2, 3

WITHOUT_ACLS = "without ACLs"
UNAUTHENTICATED = "unauthenticated"
BY_THE_SUPER_USER = "by the super user"

SUPER_LOGIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{SUPER_USER}" '
    f'password="{password_of(SUPER_USER)}" user_{SUPER_USER}="{password_of(SUPER_USER)}" user_{USER}="{password_of(USER)}";'
)


def access_settings(port: int, sasl_port: int) -> dict[str, str]:
    """What both brokers are started with: ACLs, a listener for everybody and one for users."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": SUPER_LOGIN,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{SUPER_USER}",
        "delegation.token.secret.key": "secret",
    }


@dataclass(frozen=True)
class Grant:
    """One ACL. `name` is a short one of the run's own, behind `before`, or the whole name with `is_whole`."""

    operation: Operation
    resource_type: ResourceType
    name: str
    is_whole: bool = False
    before: str = ""
    permission: int = ALLOW
    user: str = USER


def on_cluster(*operations: Operation) -> list[Grant]:
    return [Grant(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_whole=True) for operation in operations]


def on_topic(*operations: Operation, name: str = "t") -> list[Grant]:
    return [Grant(operation, ResourceType.TOPIC, name) for operation in operations]


def denied_on_topic(*operations: Operation, name: str = "t") -> list[Grant]:
    return [Grant(operation, ResourceType.TOPIC, name, permission=DENY) for operation in operations]


def on_group(*operations: Operation, name: str = "g") -> list[Grant]:
    return [Grant(operation, ResourceType.GROUP, name) for operation in operations]


def on_transaction(*operations: Operation, name: str = "tx") -> list[Grant]:
    return [Grant(operation, ResourceType.TRANSACTIONAL_ID, name) for operation in operations]


class Scene:
    """A run with users, who have the ACLs that they were granted."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._wires: dict[str | None, Wire] = {SUPER_USER: run.wire}
        self.revoke()

    def wire_of(self, user: str | None) -> Wire:
        if user not in self._wires:
            self._wires[user] = self.run.connect_as(user)
        return self._wires[user]

    def ask(self, request: Request, user: str | None = USER, **options: Any) -> Any:
        """Keep what the broker answers to a user."""
        return self.run.ask(request, wire=self.wire_of(user), **options)

    def grant(self, grants: Sequence[Grant]) -> None:
        if not grants:
            return
        answer = self.run.do(
            CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=grant.resource_type,
                        resource_name=grant.name if grant.is_whole else grant.before + self.run.name(grant.name),
                        resource_pattern_type=LITERAL,
                        principal=f"User:{grant.user}",
                        host="*",
                        operation=grant.operation,
                        permission_type=grant.permission,
                    )
                    for grant in grants
                ]
            )
        )
        assert all(row.error_code == 0 for row in answer.results), answer
        self._wait_for_acls(len(grants))

    def revoke(self, user: str = USER) -> None:
        """Take all ACLs from a user."""
        everything = DeleteAclsFilter(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        answer = self.run.do(DeleteAclsRequest(filters=[everything]))
        assert all(row.error_code == 0 for row in answer.filter_results), answer
        self._wait_for_acls(0, user)

    def _wait_for_acls(self, count: int, user: str = USER) -> None:
        """In KRaft mode a broker hears of ACLs after the client that made them."""
        asked = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )

        def are_there() -> bool:
            return sum(len(each.acls) for each in self.run.do(asked).resources) == count

        if self.run.case.stage == NEWER_SECURED:
            self.run.until(f"{user} has {count} ACLs", are_there)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()


Situations = Mapping[str, Sequence[Grant]]


def numbered(run: Run, short: str) -> str:
    """A name of its own in each situation of a case, for what a request makes or destroys."""
    return f"{short}{len(run.answers)}"


def unnumbered(answer: Any, number: int) -> Any:
    """An answer in which the names of a situation are those of every other."""
    if isinstance(answer, dict):
        return {key: unnumbered(value, number) for key, value in answer.items()}
    if isinstance(answer, list):
        return [unnumbered(each, number) for each in answer]
    if isinstance(answer, str):
        answer = re.sub(r"^Request Request\(.*\) is", "The request is", answer)  # names its connection and more
        return re.sub(rf"\b([a-z]+){number}\b", r"\1", answer)
    return answer


def check(
    api: type[Request],
    request: Callable[[Run, Any], Request],
    situations: Situations,
    versions: str = "0+",
    *,
    about: str = "who may",
    prepare: Callable[[Run], Any] = lambda run: None,
    prepare_each: Callable[[Run], Any] | None = None,
    pick: Callable[[Run], Callable[[Any], None]] | None = None,
    may_be_silent: bool = False,
    stage: str = SECURED,
) -> None:
    """Declares a case. The super user prepares once, or before each situation; the request gets what was prepared."""

    def play(run: Run) -> None:
        scene = Scene(run)
        prepared = prepare(run)
        everybody: list[tuple[str, str | None, Sequence[Grant]]] = [
            (WITHOUT_ACLS, USER, []),
            (UNAUTHENTICATED, None, []),
            *((name, USER, grants) for name, grants in situations.items()),
            (BY_THE_SUPER_USER, SUPER_USER, []),
        ]
        try:
            for situation, user, grants in everybody:
                if prepare_each is not None:
                    prepared = prepare_each(run)
                made = [replace(grant, name=grant.name.format(n=len(run.answers))) for grant in grants]
                asked = request(run, prepared)
                scene.grant(made)
                scene.ask(asked, user, may_be_silent=may_be_silent, pick=pick and pick(run))
                run.answers[-1] = {"situations": situation, "answer": unnumbered(run.answers[-1], len(run.answers) - 1)}
                if made:
                    scene.revoke()
        finally:
            scene.close()
        run.answers = _joined(run.answers)

    play.__name__ = about.replace(" ", "_")
    if stage == NEWER_SECURED:
        newer_case(api, versions, stage=stage)(play)
    else:
        case(api, "edge", versions, stage=stage)(play)


def _joined(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Situations with equal answers joined, in the order of the first of each."""
    joined: list[dict[str, Any]] = []
    for entry in answers:
        same = next((each for each in joined if each["answer"] == entry["answer"]), None)
        if same is None:
            joined.append(entry)
        else:
            same["situations"] += ", " + entry["situations"]
    return joined

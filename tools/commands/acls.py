"""`barnabas acls`: who may do what.

Source: kafka-acls.sh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from client.admin import acls as acl_steps
from client.admin.acls import AclWords
from runtime.command_line.execute_option import execute_option
from runtime.command_line.group import Commands
from runtime.command_line.output import Output
from tools.cluster import Cluster, cluster_command

_OPERATIONS = ("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs",
               "alter-configs", "idempotent-write", "create-tokens", "describe-tokens")  # fmt: skip
_COLUMNS = ("resource_type", "resource", "pattern", "principal", "host", "operation", "permission")
_LITERAL = "literal"
_ANY_RESOURCE: list[tuple[str, str | None]] = [("any", None)]
CLUSTER_NAME = "kafka-cluster"
_KINDS = {
    "topics": "topic",
    "groups": "group",
    "transactional_ids": "transactional-id",
    "tokens": "delegation-token",
    "users": "user",
}
"""Types of resources by the option that names them."""


command = Commands("acls", help="Who may do what on which resource.")


def _resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="a topic; * means every topic; may be repeated"),
        click.option("--group", "groups", multiple=True, metavar="NAME", help="a group; may be repeated"),
        click.option("--transactional-id", "transactional_ids", multiple=True, metavar="NAME",
                     help="a transactional id; may be repeated"),
        click.option("--delegation-token", "tokens", multiple=True, metavar="ID", help="a delegation token; may be repeated"),
        click.option("--user-principal", "users", multiple=True, metavar="User:NAME",
                     help="a user whose tokens it is about; may be repeated"),
        click.option("--cluster", "is_cluster", is_flag=True, help="the cluster as a resource"),
        click.option("--resource-pattern-type", "pattern", default=None, help="how the name is compared",
                     type=click.Choice(["literal", "prefixed", "match", "any"], case_sensitive=False)),
    )):  # fmt: skip
        function = option(function)
    return function


def _principal_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((
        click.option("--allow-principal", "allowed", multiple=True, metavar="User:NAME",
                     help="allow this principal; may be repeated"),
        click.option("--deny-principal", "denied", multiple=True, metavar="User:NAME",
                     help="deny this principal, whatever other ACLs allow"),
        click.option("--operation", "operations", multiple=True, type=_Operation(),
                     help="allow or deny this operation; may be repeated [all]"),
        click.option("--allow-host", "allowed_hosts", multiple=True, metavar="ADDRESS",
                     help="allow only from this address; may be repeated [any]"),
        click.option("--deny-host", "denied_hosts", multiple=True, metavar="ADDRESS",
                     help="deny only from this address; may be repeated [any]"),
        click.option("--host", "hosts", multiple=True, metavar="ADDRESS",
                     help="allow and deny only from this address; may be repeated"),
    )):  # fmt: skip
        function = option(function)
    return function


class _Operation(click.ParamType[str]):
    """An operation in the forms of kafka-acls.sh: `DescribeConfigs`, `describe-configs`, `DESCRIBE_CONFIGS`."""

    name = "operation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        wanted = str(value).lower().replace("_", "-")
        for known in _OPERATIONS:
            if wanted.replace("-", "") == known.replace("-", ""):
                return known
        return self.fail(f"{value!r} is none of {', '.join(_OPERATIONS)}", param, ctx)


@command.command("list")
@_resource_options
@click.option(
    "--principal", "principals", multiple=True, metavar="User:NAME", help="only of this principal; may be repeated"
)
@cluster_command
def list_acls(
    cluster: Cluster, output: Output, *, principals: tuple[str, ...], pattern: str | None, **named: Any
) -> None:
    """List ACLs, of some resources or of all. `--resource-pattern-type match` shows all that concern a name."""
    found = {
        acl
        for resource_type, name in _resources(named, needs_one=False) or _ANY_RESOURCE
        for principal in principals or (None,)
        for acl in cluster.run(acl_steps.describe(AclWords(resource_type, name, pattern or "any", principal)))
    }
    output.table(list(map(asdict, sorted(found))), _COLUMNS)


@command.command("add")
@_resource_options
@_principal_options
@click.option("--producer", is_flag=True, help="what a producer of --topic needs")
@click.option("--consumer", is_flag=True, help="what a consumer of --topic in --group needs")
@click.option(
    "--idempotent", is_flag=True, help="also give the right that an idempotent producer needs on brokers before 3.0"
)
@cluster_command
def add_acls(
    cluster: Cluster,
    output: Output,
    *,
    pattern: str | None,
    producer: bool,
    consumer: bool,
    idempotent: bool,
    **others: Any,
) -> None:
    """Add ACLs."""
    if pattern in ("match", "any"):
        raise click.UsageError("an ACL is literal or prefixed")
    if not others["allowed"] and not others["denied"]:
        raise click.UsageError("name --allow-principal or --deny-principal")
    if (producer or consumer) and others["operations"]:
        raise click.UsageError("--producer and --consumer say the operations")
    acls = [
        AclWords(resource_type, name, (pattern or _LITERAL) if resource_type != "cluster" else _LITERAL,
            match.principal, match.host, operation, match.permission)
        for resource_type, name, operation in _wanted(others, producer=producer, consumer=consumer, idempotent=idempotent)
        for match in _matches(others, any_host="*")
    ]  # fmt: skip
    acls = list(dict.fromkeys(acls))
    cluster.run(acl_steps.create(acls))
    for acl in acls:
        row = asdict(acl)
        output.line(row, "added: " + " ".join(str(row[column]) for column in _COLUMNS))


@command.command("remove")
@_resource_options
@_principal_options
@click.option("--principal", "principals", multiple=True, metavar="User:NAME",
              help="show only ACLs of this principal; may be repeated")  # fmt: skip
@click.option("--producer", is_flag=True, help="what a producer of --topic needs")
@click.option("--consumer", is_flag=True, help="what a consumer of --topic in --group needs")
@execute_option("remove the ACLs", "--force")
@cluster_command
def remove_acls(
    cluster: Cluster,
    output: Output,
    *,
    principals: tuple[str, ...],
    pattern: str | None,
    producer: bool,
    consumer: bool,
    execute: bool,
    **others: Any,
) -> None:
    """Remove the ACLs of resources: all, or those that are named more closely. A dry run, unless --execute is given."""
    if (producer or consumer) and others["operations"]:
        raise click.UsageError("--producer and --consumer say the operations")
    hosts = others["hosts"] or (None,)
    matches = [Match(principal, host) for principal in principals for host in hosts] + _matches(others, any_host=None)
    if producer or consumer:
        wanted = _of_roles(others, producer=producer, consumer=consumer)
    else:
        resources = _resources(others, needs_one=True)
        wanted = [(*each, operation) for each in resources for operation in others["operations"] or ("any",)]
    found = {
        acl
        for resource_type, name, operation in wanted
        for match in matches or [Match(None, host) for host in hosts]
        for acl in cluster.run(
            (acl_steps.delete if execute else acl_steps.describe)(
                AclWords(
                    resource_type, name, pattern or _LITERAL, match.principal, match.host, operation, match.permission
                )
            )
        )
    }
    output.table(list(map(asdict, sorted(found))), _COLUMNS)
    if not found:
        Output.note("there are no such ACLs")
    elif not execute:
        Output.note("nothing was removed: --execute removes these ACLs")


@dataclass(frozen=True, slots=True)
class Match:
    """Whose ACLs; None and "any" leave it open."""

    principal: str | None
    host: str | None = None
    permission: str = "any"


def _matches(others: dict[str, Any], *, any_host: str | None) -> list[Match]:
    """Return those that --allow-principal and --deny-principal name. Raises click.UsageError."""
    for text in (*others["allowed"], *others["denied"]):
        if not all(text.partition(":")):
            raise click.UsageError(f"{text!r} is not of the form User:NAME")
    if (others["allowed_hosts"] and not others["allowed"]) or (others["denied_hosts"] and not others["denied"]):
        raise click.UsageError("--allow-host goes with --allow-principal, --deny-host with --deny-principal")
    return [
        Match(principal, host, permission)
        for principals, hosts, permission in (
            (others["allowed"], (*others["allowed_hosts"], *others["hosts"]), "allow"),
            (others["denied"], (*others["denied_hosts"], *others["hosts"]), "deny"),
        )
        for principal in principals
        for host in hosts or (any_host,)
    ]


def _resources(named: dict[str, Any], *, needs_one: bool) -> list[tuple[str, str | None]]:
    """Return type and name of the resources that the options name. Raises click.UsageError."""
    found: list[tuple[str, str | None]] = [(kind, name) for option, kind in _KINDS.items() for name in named[option]]
    if named["is_cluster"]:
        found.append(("cluster", CLUSTER_NAME))
    if needs_one and not found:
        raise click.UsageError(
            "name --topic, --group, --transactional-id, --delegation-token, --user-principal or --cluster"
        )
    return found


def _wanted(
    named: dict[str, Any], *, producer: bool, consumer: bool, idempotent: bool
) -> list[tuple[str, str | None, str]]:
    """Return resources and operations. Raises click.UsageError."""
    if producer or consumer:
        wanted = _of_roles(named, producer=producer, consumer=consumer)
    else:
        resources = _resources(named, needs_one=not idempotent)
        wanted = [(*each, operation) for each in resources for operation in named["operations"] or ("all",)]
    if idempotent:
        wanted.append(("cluster", CLUSTER_NAME, "idempotent-write"))
    return list(dict.fromkeys(wanted))


def _of_roles(named: dict[str, Any], *, producer: bool, consumer: bool) -> list[tuple[str, str | None, str]]:
    """Return what producers and consumers need, as kafka-acls.sh gives it. Raises click.UsageError."""
    topics, groups, transactional_ids = named["topics"], named["groups"], named["transactional_ids"]
    if not topics or (consumer and not groups):
        raise click.UsageError("--producer goes with --topic, --consumer with --topic and --group")
    wanted: list[tuple[str, str | None, str]] = []
    if producer:
        wanted += [("topic", topic, operation) for topic in topics for operation in ("write", "describe", "create")]
        wanted += [
            ("transactional-id", each, operation) for each in transactional_ids for operation in ("write", "describe")
        ]
    if consumer:
        wanted += [("topic", topic, operation) for topic in topics for operation in ("read", "describe")]
        wanted += [("group", group, "read") for group in groups]
    return list(dict.fromkeys(wanted))

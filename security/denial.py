"""What is said about a denial: the right that is missing, and the command by which an administrator gives it. Pure.

Rules: a client learns it about a topic only when it may know whether the topic exists, so with the right to DESCRIBE it. The
right to CREATE is checked before the existence of the topic, and is always named. The broker's log always has it.
If an ACL denies, the log has the command that removes it, and the client only gets the one that lists ACLs. A command for
a client that has not logged in allows one address, not all.
Source: ours; the commands are those of `barnabas acls`, whose options are those of kafka-acls.sh.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from security.access import Operation, ResourceType
from security.acls.entries import AclBinding, PatternType
from security.principal import ANONYMOUS, Principal

NAME_CHARACTERS_MAX = 256
"""Nothing is said about a longer name, which only a hostile client has: it would be repeated in the response."""
ANY_NAME = "NAME"
"""In a command, in place of the name when any resource of the type would do."""

_OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_NOUNS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "delegation token",
    ResourceType.USER: "user",
}


class Denied(NamedTuple):
    """An operation that was denied to a client. An empty `name` stands for any resource of the type."""

    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


class Cause(NamedTuple):
    """Why: `binding` is the DENY that forbids it, None without an ALLOW. `is_visible`: the client may know whether the resource
    exists."""

    is_visible: bool = True
    binding: AclBinding | None = None


def resolution(denied: Denied, cause: Cause) -> str:
    """Return the command that an administrator runs to allow it; empty for names and principals of a hostile length."""
    if _is_too_long(denied):
        return ""
    if cause.binding is None:
        who = ["--allow-principal", str(denied.principal)]
        if denied.principal == ANONYMOUS:
            who += ["--allow-host", denied.host]
        return _command("add", *who, "--operation", _word(denied.operation), *_resource(denied))
    pattern, entry = cause.binding
    kind = ["--resource-pattern-type", "prefixed"] if pattern.pattern_type is PatternType.PREFIXED else []
    resource = _resource(denied._replace(resource_type=pattern.resource_type, name=pattern.name))
    who = ["--deny-principal", str(entry.principal), "--deny-host", entry.host]
    return _command("remove", *who, "--operation", _word(entry.operation), *resource, *kind, "--execute")


def client_text(denied: Denied, cause: Cause) -> str:
    """Return the message to the client, which may be empty."""
    if not cause.is_visible or _is_too_long(denied):
        return ""
    right = f"{denied.operation.name} on {_noun(denied)}"
    if cause.binding is not None:
        command = _command("list", *_resource(denied), "--resource-pattern-type", "match")
        return f"An ACL denies {denied.principal} the right {right}. An administrator sees it by: {command}"
    return f"{denied.principal} needs the right {right}. An administrator gives it by: {resolution(denied, cause)}"


def _is_too_long(denied: Denied) -> bool:
    return len(denied.name) > NAME_CHARACTERS_MAX or len(denied.principal.name) > NAME_CHARACTERS_MAX


def _noun(denied: Denied) -> str:
    if denied.resource_type is ResourceType.CLUSTER:
        return "the cluster"
    return f"the {_NOUNS[denied.resource_type]} {denied.name}" if denied.name else f"any {_NOUNS[denied.resource_type]}"


def _resource(denied: Denied) -> list[str]:
    option = _OPTIONS[denied.resource_type]
    return [option] if denied.resource_type is ResourceType.CLUSTER else [option, denied.name or ANY_NAME]


def _word(operation: Operation) -> str:
    return operation.name.lower().replace("_", "-")


def _command(action: str, *words: str) -> str:
    return shlex.join(("barnabas", "acls", action, *words))

"""Whether those who made the rules may do what the rules do, by the ACLs of the cluster. Pure.

    verdicts = await cluster.run(judged(rules, settings))
    table.judge(verdicts)

A rule names its `principal`. This user needs Read on the source, and Write on the target and on the topics of dead letters and
results that the rule names: so nobody lets the relay, which may write to many topics, write where he may not.

Rules: on a cluster without an authorizer every rule holds. With one, a rule without a principal does not. A right must hold
from every address, since nobody knows from which one the user would come: an ALLOW counts if it is for all hosts, a DENY in any
case. Brokers show the values of `super.users` and `allow.everyone.if.no.acl.found` to nobody; the relay has them among
its own settings. The relay itself needs Describe on the cluster to read ACLs; without it no rule holds.
Source: Kafka AclAuthorizer, StandardAuthorizer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from client.admin.acls import AclWords, describe
from client.admin.steps import Steps
from config.acl_settings import AclSettings
from protocol.errors import ErrorCode, KafkaError
from relay.rules.rule import Rule
from security.access import Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import WILDCARD, AclEntry, PatternType, PermissionType, ResourcePattern
from security.principal import Principal

HIDDEN: Final = "the ACLs cannot be read: that needs Describe on the cluster"
"""The verdict about every rule where whoever asks may not see ACLs."""
_TOPIC = "topic"
_MATCH = "match"


def judged(rules: Collection[Rule], settings: AclSettings) -> Steps[dict[Rule, str | None]]:
    """Return for each rule what its principal lacks, or None. `settings` are those of the brokers' authorizer. Raises
    KafkaError when no broker tells the ACLs now."""
    acls: set[AclWords] = set()
    for topic in sorted({topic for rule in rules for topic in (rule.source, *rule.destinations)}):
        try:
            acls |= set((yield from describe(AclWords(_TOPIC, topic, _MATCH))))
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return dict.fromkeys(rules)
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return dict.fromkeys(rules, HIDDEN)
            raise
    return verdicts(rules, acls, settings)


def verdicts(rules: Iterable[Rule], acls: Iterable[AclWords], settings: AclSettings) -> dict[Rule, str | None]:
    """Return for each rule what its principal lacks, or None. `acls` are at least those that apply to the rules' topics."""
    authorizer = AclAuthorizer(
        [Principal.parse(each) for each in settings.super_users], allows_without_acl=settings.allows_without_acl
    )
    entries: dict[ResourcePattern, set[AclEntry]] = {}
    for acl in acls:
        found = _binding(acl)
        if found is not None:
            entries.setdefault(found[0], set()).add(found[1])
    for pattern, some in entries.items():
        authorizer.replace(pattern, some)
    return {rule: _verdict(rule, authorizer) for rule in rules}


def needed(rule: Rule) -> Sequence[tuple[Operation, str]]:
    """Return the operations on topics that the principal of a rule must be allowed."""
    return [(Operation.READ, rule.source), *((Operation.WRITE, topic) for topic in rule.destinations)]


def _verdict(rule: Rule, authorizer: AclAuthorizer) -> str | None:
    if rule.principal is None:
        return "it names no principal, and the cluster has an authorizer"
    principal = Principal.parse(rule.principal)
    missing = [
        f"{operation.name.capitalize()} on topic {topic}"
        for operation, topic in needed(rule)
        if not authorizer.allows(principal, WILDCARD, operation, ResourceType.TOPIC, topic)
    ]
    return f"{principal} has not {', '.join(missing)}" if missing else None


def _binding(acl: AclWords) -> tuple[ResourcePattern, AclEntry] | None:
    """Return a pattern and an entry as `_verdict` compares them; None for an ACL that says nothing about topics."""
    operations = {each.name.lower().replace("_", "-"): each for each in Operation}
    operation = operations.get(acl.operation)
    if acl.resource_type != _TOPIC or operation is None or acl.pattern not in ("literal", "prefixed"):
        return None
    permission = PermissionType.DENY if acl.permission == "deny" else PermissionType.ALLOW
    host = WILDCARD if permission is PermissionType.DENY else acl.host or ""
    pattern = ResourcePattern(ResourceType.TOPIC, acl.resource or "", PatternType[acl.pattern.upper()])
    return pattern, AclEntry(Principal.parse(acl.principal or ":"), host, operation, permission)

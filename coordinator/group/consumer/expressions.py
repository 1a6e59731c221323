"""The regular expressions of a group: which of them have to be matched with the topics of the cluster, and what came out.

Matching is done outside the shard; its outcome comes as an operation and becomes records. Members read the topics of the last
outcome meanwhile; a new expression matches nothing until then. One matching for a group at a time, all its expressions
together, not more often than every ten seconds: when an expression is new, when the cluster has new topics, and when the last
outcome is `group.consumer.regex.refresh.interval.ms` old.

Rules: no IO. What a member may not describe is left out of the outcome by whoever matches, in the name of the member whose
heartbeat asked for it.
Source: Kafka GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.consumer.entries import ResolvedExpression
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import Subscription
from coordinator.runtime.contract import Command

LEAST_INTERVAL_MS = 10_000
# Whether somebody may describe a topic; None: everybody may.
MayDescribe: TypeAlias = Callable[[str], bool] | None


class ExpressionChange(Enum):
    """What the heartbeat of a member changed. RESOLVED: what its new expression matches is known, or it has none any more."""

    NONE = "none"
    UPDATED = "updated"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class ResolveExpressions(Command):
    """Match `expressions` with the topics of the cluster, of which those count that `may_describe` allows (None: all), and pass
    the outcome to `GroupShard.on_expressions_resolved`."""

    group_id: str
    expressions: frozenset[str]
    version: int
    may_describe: MayDescribe


@dataclass(frozen=True, slots=True)
class ResolvedExpressions:
    """`topics` by expression; `failure` says why there are none. `version` is that of the command."""

    group_id: str
    topics: Mapping[str, frozenset[str]]
    version: int
    failure: str | None = None


class Expressions:
    """The expressions of the groups of a shard."""

    def __init__(self, configs: GroupConfigs, topics: GroupTopics) -> None:
        self._configs = configs
        self._topics = topics

    def updated(
        self, group: ConsumerGroup, before: Subscription, after: Subscription, journal: Journal
    ) -> ExpressionChange:
        """A member's subscription has changed from `before` to `after`, and is counted in the group. The outcome of an
        expression that nobody asks for any more is removed."""
        old, new = before.topic_regex, after.topic_regex
        if old == new:
            return ExpressionChange.NONE
        if old and old in group.expressions and old not in group.members_by_expression:
            journal.put(group, EntryKey(EntryKind.EXPRESSION, group.group_id, old), None)
        return ExpressionChange.RESOLVED if not new or new in group.expressions else ExpressionChange.UPDATED

    def resolve_if_due(self, group: ConsumerGroup, journal: Journal, may_describe: MayDescribe, now_ms: int) -> None:
        expressions = group.members_by_expression.keys()
        if not expressions or group.resolving:
            return
        last = next(iter(group.expressions.values()), None)
        last_ms = last.timestamp_ms if last is not None else None
        if last_ms is not None and now_ms <= last_ms + LEAST_INTERVAL_MS:
            return
        is_due = (
            last is None
            or expressions != group.expressions.keys()
            or last.version < self._topics.version
            or now_ms > last.timestamp_ms + self._configs.settings.regex_refresh_interval_ms
        )
        if is_due:
            group.resolving = True
            command = ResolveExpressions(group.group_id, frozenset(expressions), self._topics.version, may_describe)
            journal.then(command, undo=lambda: setattr(group, "resolving", False))

    def resolved(self, group: ConsumerGroup, outcome: ResolvedExpressions, journal: Journal, now_ms: int) -> bool:
        """Store an outcome. Returns whether the group reads other topics than before."""
        group.resolving = False
        has_changed = False
        for expression in sorted(outcome.topics):
            if expression not in group.members_by_expression:
                continue
            topics = outcome.topics[expression]
            present = group.expressions.get(expression)
            has_changed |= topics != (frozenset() if present is None else present.topics)
            entry = ResolvedExpression(topics, outcome.version, now_ms)
            journal.put(group, EntryKey(EntryKind.EXPRESSION, group.group_id, expression), entry)
        return has_changed

    def remove_unread(self, group: ConsumerGroup, journal: Journal) -> None:
        """Remove the outcomes of expressions that no member asks for any more."""
        for expression in [each for each in group.expressions if each not in group.members_by_expression]:
            journal.put(group, EntryKey(EntryKind.EXPRESSION, group.group_id, expression), None)

"""What is wrong with rules on a cluster: topics that are missing, settings that lose records, rights. Pure.

    found = await cluster.run(survey(rules))
    problems(rule, found)

Rules: what the cluster does not tell whoever asks is no problem. A problem is a sentence that names what to do about it, where
that is not plain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from client.admin import configs as config_steps
from client.admin import topics as topic_steps
from client.admin.configs import Resource, ResourceKind
from client.admin.steps import Steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataResponseTopic
from relay.rules.authorisation import needed
from relay.rules.rule import Partitioner, Rule
from security.access import Operation

RETENTION_MIN_MS: Final = 3_600_000
"""What a source should keep: records that are due soon wait in it, and all while no relay runs."""
NO_OPERATIONS: Final = -(1 << 31)
"""What a broker says that was not asked for operations, or does not know them."""
_COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Survey:
    """`topics` are those of the rules that exist; `hidden` those that whoever asks may not see, with the reason. `settings` are
    those of the sources, where they are told."""

    topics: Mapping[str, MetadataResponseTopic] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    def missing(self, rule: Rule) -> list[str]:
        """Return the topics of a rule that do not exist."""
        named = dict.fromkeys((rule.source, *rule.destinations))
        return [name for name in named if name not in self.topics and name not in self.hidden]

    def lacks(self, rule: Rule) -> list[str]:
        """Return what whoever asks may not do with the topics of a rule, and the rule does."""
        return [
            f"{operation.name.capitalize()} on topic {topic}"
            for operation, topic in needed(rule)
            if topic in self.hidden or (topic in self.topics and not _may(self.topics[topic], operation))
        ]


def survey(rules: Collection[Rule]) -> Steps[Survey]:
    """Return what the cluster tells of the topics of rules. Raises KafkaError."""
    names = sorted({topic for rule in rules for topic in (rule.source, *rule.destinations)})
    found = (yield from topic_steps.describe(names, has_operations=True)) if names else {}
    topics: dict[str, MetadataResponseTopic] = {}
    hidden: dict[str, str] = {}
    for name, topic in found.items():
        if not isinstance(topic, KafkaError):
            topics[name] = topic
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            hidden[name] = topic.code.name
    sources = [Resource(ResourceKind.TOPIC, rule.source) for rule in rules if rule.source in topics]
    told = (yield from config_steps.describe(sources)) if sources else {}
    settings = {
        resource.name: {name: row.value for name, row in rows.items()}
        for resource, rows in told.items()
        if not isinstance(rows, KafkaError)
    }
    return Survey(topics, hidden, settings)


def problems(rule: Rule, found: Survey) -> list[str]:
    """Return what is wrong with the topics of a rule, but for rights."""
    said = [f"topic {name} does not exist" for name in found.missing(rule)]
    settings = found.settings.get(rule.source, {})
    if _COMPACT in (settings.get("cleanup.policy") or ""):
        said.append(f"{rule.source} is compacted: a record with the same key removes one that waits in it")
    retention_ms = int(settings.get("retention.ms") or -1)
    if 0 <= retention_ms < RETENTION_MIN_MS and "delete" in (settings.get("cleanup.policy") or "delete"):
        said.append(
            f"{rule.source} keeps records for {retention_ms} ms, and those that wait in it are lost after that: "
            f"set its retention.ms to {RETENTION_MIN_MS} at least"
        )
    source, target = found.topics.get(rule.source), found.topics.get(rule.target)
    if rule.partitioner is Partitioner.SAME and source is not None and target is not None:
        more = len(source.partitions) - len(target.partitions)
        if more > 0:
            said.append(
                f"{rule.target} has {more} partitions less than {rule.source}: what is in those is a dead letter"
            )
    return said


def _may(topic: MetadataResponseTopic, operation: Operation) -> bool:
    operations = topic.topic_authorized_operations
    return operations == NO_OPERATIONS or bool(operations >> operation & 1)

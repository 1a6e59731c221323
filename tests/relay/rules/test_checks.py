"""What is wrong with rules on a cluster, by what the cluster tells."""

from __future__ import annotations

import pytest

from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from relay.rules.checks import NO_OPERATIONS, Survey, problems
from relay.rules.rule import Partitioner, Rule, RuleKind
from security.access import Operation

RULE = Rule("in", RuleKind.DELAY, "out", results="told")
SAME = Rule("in", RuleKind.DELAY, "out", partitioner=Partitioner.SAME)


def topic(partitions: int, *operations: Operation) -> MetadataResponseTopic:
    bits = sum(1 << each for each in operations) or NO_OPERATIONS
    rows = [
        MetadataResponsePartition(error_code=0, partition_index=each, leader_id=0, replica_nodes=[0], isr_nodes=[0])
        for each in range(partitions)
    ]
    return MetadataResponseTopic(error_code=0, name="", partitions=rows, topic_authorized_operations=bits)


@pytest.mark.parametrize(
    ("rule", "counts", "settings", "said"),
    [
        (RULE, {"in": 1, "out": 1, "told": 1}, {}, []),
        (RULE, {"in": 1}, {}, ["topic out does not exist", "topic told does not exist"]),
        (RULE, {"in": 3, "out": 1, "told": 1}, {}, []),
        (SAME, {"in": 3, "out": 1}, {}, ["out has 2 partitions less than in"]),
        (SAME, {"in": 3, "out": 4}, {}, []),
        (SAME, {"in": 1, "out": 1}, {"cleanup.policy": "compact"}, ["in is compacted"]),
        (SAME, {"in": 1, "out": 1}, {"cleanup.policy": "compact", "retention.ms": "1000"}, ["in is compacted"]),
        (SAME, {"in": 1, "out": 1}, {"cleanup.policy": "compact,delete", "retention.ms": "1000"},
         ["in is compacted", "in keeps records for 1000 ms"]),
        (SAME, {"in": 1, "out": 1}, {"retention.ms": "3599999"}, ["in keeps records for 3599999 ms"]),
        (SAME, {"in": 1, "out": 1}, {"retention.ms": "3600000"}, []),
        (SAME, {"in": 1, "out": 1}, {"retention.ms": "-1"}, []),
        (SAME, {"in": 1, "out": 1}, {"retention.ms": None}, []),
    ],
)  # fmt: skip
def test_problems(rule: Rule, counts: dict[str, int], settings: dict[str, str | None], said: list[str]) -> None:
    found = problems(rule, Survey({name: topic(count) for name, count in counts.items()}, {}, {"in": settings}))
    assert len(found) == len(said)
    assert all(text.startswith(beginning) for text, beginning in zip(found, said, strict=True))


def test_what_whoever_asks_may_not_do() -> None:
    may = {"in": topic(1, Operation.READ), "out": topic(1, Operation.READ), "told": topic(1)}
    assert Survey(may).lacks(RULE) == ["Write on topic out"]
    hidden = Survey({"out": topic(1, Operation.WRITE)}, {"in": "TOPIC_AUTHORIZATION_FAILED"})
    assert hidden.lacks(RULE) == ["Read on topic in"]
    assert hidden.missing(RULE) == ["told"]

"""What the server-side assignors of Apache Kafka 4.3.0 answer for groups whose members come, go and change what they read.

The recording has a line of JSON for each group, `{assignor, topics, rounds, answers}`.
`topics` are `[id, partitions]`. A member of a round is `[member, instance or null, topics]`, where topics are digits, positions
in `topics`. An answer has a text for each member, such as `0:1,2 3:0`: partitions 1 and 2 of topic 0, partition 0 of topic 3.
What Apache Kafka answers depends on the order in which it goes through its hash maps. Here members come in the order of the
round. Topic ids of groups in which all members read the same are small numbers, whose hash order is the ascending one; where
members read different topics, the order of topics comes from no hash map, and their ids are random.

`python -m tests.oracle.assignors` makes other groups from a seed, asks Apache Kafka, and writes the recording anew.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.oracle import java

RECORDED = java.HERE.parent / "coordinator" / "group" / "consumer" / "assignors" / "kafka-4.3.jsonl"
_ROUNDS = 6


def ask(groups: list[dict[str, Any]]) -> list[Any]:
    """The answers to each group's rounds."""
    command = java.command("", [], release=java.KRAFT_MODE)
    command[-1:] = [str(java.HERE / "AssignPartitions.java")]
    lines = "".join(json.dumps(group) + "\n" for group in groups)
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120)
    return [json.loads(line) for line in run.stdout.splitlines()]


@dataclass(frozen=True)
class Round:
    """The members in their order, with instance id and topics, and what each owns after it."""

    members: dict[str, tuple[str | None, frozenset[bytes]]]
    answer: dict[str, dict[bytes, frozenset[int]]]


@dataclass(frozen=True)
class Group:
    assignor: str
    topics: dict[bytes, int]
    rounds: list[Round]


def recording() -> list[Group]:
    return [_read(json.loads(line)) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def _read(found: dict[str, Any]) -> Group:
    topic_ids = [base64.urlsafe_b64decode(name + "==") for name, _ in found["topics"]]
    rounds = [
        Round(
            {
                member: (instance, frozenset(topic_ids[int(each)] for each in read))
                for member, instance, read in members
            },
            {member[0]: _share(topic_ids, text) for member, text in zip(members, texts, strict=True)},
        )
        for members, texts in zip(found["rounds"], found["answers"], strict=True)
    ]
    counts = [count for _, count in found["topics"]]
    return Group(found["assignor"], dict(zip(topic_ids, counts, strict=True)), rounds)


def _share(topic_ids: list[bytes], text: str) -> dict[bytes, frozenset[int]]:
    parts = [part.split(":") for part in text.split()]
    return {topic_ids[int(number)]: frozenset(map(int, partitions.split(","))) for number, partitions in parts}


def record(seed: int = 20, count: int = 16) -> None:
    chosen = random.Random(seed)
    groups = [
        _group(chosen, assignor, is_mixed)
        for assignor in ("uniform", "range")
        for is_mixed in (False, True)
        for _ in range(count if assignor == "uniform" else count // 2)
    ]
    lines = [json.dumps(_short(group, answers)) for group, answers in zip(groups, ask(groups), strict=True)]
    RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _short(group: dict[str, Any], answers: list[dict[str, dict[str, list[int]]]]) -> dict[str, Any]:
    position = {name: number for number, name in enumerate(group["topics"])}
    texts = [
        [
            " ".join(f"{position[name]}:{','.join(map(str, share))}" for name, share in answer[member[0]].items())
            for member in members
        ]
        for members, answer in zip(group["rounds"], answers, strict=True)
    ]
    rounds = [
        [[name, instance, "".join(str(position[each]) for each in read)] for name, instance, _, read in members]
        for members in group["rounds"]
    ]
    return {**group, "topics": list(group["topics"].items()), "rounds": rounds, "answers": texts}


def _group(chosen: random.Random, assignor: str, is_mixed: bool) -> dict[str, Any]:
    topics = {_topic(chosen, number, is_mixed): chosen.randrange(1, 13) for number in range(1, chosen.randrange(3, 9))}
    return {"assignor": assignor, "topics": topics, "rounds": list(_rounds(chosen, list(topics), is_mixed))}


def _topic(chosen: random.Random, number: int, is_mixed: bool) -> str:
    raw = chosen.randbytes(16) if is_mixed else number.to_bytes(16)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _rounds(chosen: random.Random, topics: list[str], is_mixed: bool) -> Iterator[list[Any]]:
    """In a mixed group, at least two members read different topics in every round."""
    members: list[list[Any]] = []
    names = iter(range(1000))
    common = topics
    for _ in range(_ROUNDS):
        members = [member for member in members if chosen.random() < 0.75]
        for _ in range(chosen.randrange(1, 6)):
            name = f"{chosen.choice('abc')}{next(names)}"
            instance = f"static-{chosen.choice('xyz')}{name}" if chosen.random() < 0.3 else None
            members.append([name, instance, f"rack-{chosen.randrange(3)}", []])
        chosen.shuffle(members)
        common = topics if chosen.random() < 0.7 else chosen.sample(topics, chosen.randrange(1, len(topics)))
        for member in members:
            if not is_mixed:
                member[3] = common
            elif not member[3] or chosen.random() < 0.2:
                member[3] = chosen.sample(topics, chosen.randrange(0 if chosen.random() < 0.1 else 1, len(topics) + 1))
        if is_mixed and len({frozenset(member[3]) for member in members}) == 1:
            members.append([f"m{next(names)}", None, "rack-0", members[0][3][1:] or topics[:1]])
        yield [list(member) for member in members]


if __name__ == "__main__":
    record()

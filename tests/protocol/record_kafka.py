"""Compares every message and version with Apache Kafka's own classes, and records those that nobody else implements, and the
error codes with their texts.

    python -m tests.protocol.record_kafka DIRECTORY_OF_JARS_OF_3_9_1 DIRECTORY_OF_JARS_OF_4_3_0

needs Java 17 and the jars of org.apache.kafka:kafka_2.13 of these versions with what they depend on, which `tests.oracle.java`
fetches. 3.9.1 is asked for what it knows, 4.3.0 for what is newer. `test_messages_recorded.py` and `test_errors.py` check the
recordings on machines without Java.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from protocol.schema import Request, Response, VersionedMessage
from tests.protocol import test_messages_kafka_python, test_messages_kio
from tests.protocol.instances import classes_and_versions, instance, smallest
from tests.protocol.test_errors import ERRORS, NEWER_ERRORS
from tests.protocol.test_messages_recorded import NEWER_RECORDING, RECORDING, assert_same

HERE = Path(__file__).parent
PER_VERSION = 5


NEWER_TAGS = re.compile(r"OffsetCommitValue 4|TransactionLogValue 1|ConsumerGroup\w+Value 0")
"""3.9.1 knows these versions, but not all of their tagged fields."""
OF_SHARE_GROUPS = re.compile(r"\w*Share(Group|Fetch|Acknowledge|Snapshot|Update)")
"""3.9.1 has drafts of these messages, with other fields."""


@dataclass(frozen=True)
class Asked:
    cls: type[VersionedMessage]
    version: int
    message: VersionedMessage
    wire: str

    @property
    def java_class(self) -> str:
        name = self.cls.__name__
        if issubclass(self.cls, Request | Response):
            return f"org.apache.kafka.common.message.{name}Data"
        if name.startswith("TransactionLog"):
            return f"org.apache.kafka.coordinator.transaction.generated.{name}"
        if name.startswith(("ShareSnapshot", "ShareUpdate")):
            return f"org.apache.kafka.coordinator.share.generated.{name}"
        if name.startswith(("GroupMetadata", "OffsetCommit", "ConsumerGroup", "ShareGroup")):
            return f"org.apache.kafka.coordinator.group.generated.{name}"
        return f"org.apache.kafka.common.message.{name}"

    def line(self) -> str:
        return f"{self.java_class} {self.version} {self.wire}\n"

    def as_recorded(self, answer: str) -> str:
        """Compare with what Kafka wrote and read; return a line of a recording."""
        wire, _, fields = answer.partition("\t")
        assert wire == self.wire, f"{self.cls.__name__} v{self.version}: Kafka writes {wire} for {self.wire}"
        assert_same(self.message, json.loads(fields), self.version)
        return json.dumps([self.cls.__name__, self.version, wire, json.loads(fields)], separators=(",", ":"))


def run(jars: str, program: str, lines: str = "") -> str:
    command = ["java", "-cp", f"{jars}/*", str(HERE / "recorded" / program)]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout


def answers(jars: str, asked: list[Asked]) -> list[str]:
    """Return one of each; it is empty where this Kafka has no such message or version."""
    return run(jars, "Recorder.java", "".join(each.line() for each in asked)).splitlines()


def main(jars: str, newer_jars: str) -> None:
    asked = []
    for cls, version in classes_and_versions():
        source = random.Random(f"recorded {cls.__name__} {version}")
        messages = [instance(cls, version, source, longest=2) for _ in range(PER_VERSION - 1)]
        messages.append(smallest(cls, version))
        asked += [Asked(cls, version, message, message.encode(version).hex()) for message in messages]
    elsewhere = {case[:2] for case in (*test_messages_kio.CASES, *test_messages_kafka_python.CASES)}
    older = [each for each in asked if not OF_SHARE_GROUPS.match(each.cls.__name__)]
    recorded, newer = [], [each for each in asked if OF_SHARE_GROUPS.match(each.cls.__name__)]
    for each, answer in zip(older, answers(jars, older), strict=True):
        if not answer or NEWER_TAGS.fullmatch(f"{each.cls.__name__} {each.version}"):
            newer.append(each)
        else:
            line = each.as_recorded(answer)
            if (each.cls, each.version) not in elsewhere:
                recorded.append(line)
    RECORDING.write_text("\n".join(recorded) + "\n")
    newer_lines = [each.as_recorded(line) for each, line in zip(newer, answers(newer_jars, newer), strict=True)]
    NEWER_RECORDING.write_text("\n".join(newer_lines) + "\n")
    ERRORS.write_text(run(jars, "ErrorCodes.java"))
    NEWER_ERRORS.write_text(run(newer_jars, "ErrorCodes.java"))
    print(f"{len(asked)} messages equal, {len(recorded)} recorded, {len(newer_lines)} of the newer release")


if __name__ == "__main__":
    main(*sys.argv[1:])

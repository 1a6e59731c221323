"""Compares every message and version with Apache Kafka's own classes, and records those that nobody else implements, and the
error codes with their texts.

    python -m tests.protocol.record_kafka DIRECTORY_OF_KAFKA_JARS

needs Java 17 and the jars of org.apache.kafka:kafka_2.13:3.9.1 with what it depends on. `test_messages_recorded.py`
and `test_errors.py` check the recordings on machines without Java.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from protocol.schema import Request, Response, VersionedMessage
from tests.protocol import test_messages_kafka_python, test_messages_kio
from tests.protocol.instances import classes_and_versions, instance, smallest
from tests.protocol.test_errors import ERRORS
from tests.protocol.test_messages_recorded import RECORDING, assert_same

HERE = Path(__file__).parent
PER_VERSION = 5


def java_class(cls: type[VersionedMessage]) -> str:
    name = cls.__name__
    if issubclass(cls, Request | Response):
        return f"org.apache.kafka.common.message.{name}Data"
    if name.startswith("TransactionLog"):
        return f"org.apache.kafka.coordinator.transaction.generated.{name}"
    if name.startswith(("GroupMetadata", "OffsetCommit")):
        return f"org.apache.kafka.coordinator.group.generated.{name}"
    return f"org.apache.kafka.common.message.{name}"


def main(jars: str) -> None:
    asked = []
    for cls, version in classes_and_versions():
        source = random.Random(f"recorded {cls.__name__} {version}")
        messages = [instance(cls, version, source, longest=2) for _ in range(PER_VERSION - 1)]
        messages.append(smallest(cls, version))
        asked += [(cls, version, message, message.encode(version).hex()) for message in messages]
    lines = "".join(f"{java_class(cls)} {version} {wire}\n" for cls, version, _, wire in asked)
    command = ["java", "-cp", f"{jars}/*", str(HERE / "recorded" / "Recorder.java")]
    answers = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    elsewhere = {case[:2] for case in (*test_messages_kio.CASES, *test_messages_kafka_python.CASES)}
    recorded = []
    for (cls, version, message, wire), answer in zip(asked, answers, strict=True):
        kafka_wire, _, kafka_json = answer.partition("\t")
        assert kafka_wire == wire, f"{cls.__name__} v{version}: Kafka writes {kafka_wire} for {wire}"
        assert_same(message, json.loads(kafka_json), version)
        if (cls, version) not in elsewhere:
            recorded.append(json.dumps([cls.__name__, version, wire, json.loads(kafka_json)], separators=(",", ":")))
    RECORDING.write_text("\n".join(recorded) + "\n")
    command[-1] = str(HERE / "recorded" / "ErrorCodes.java")
    errors = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ERRORS.write_text(errors)
    print(f"{len(asked)} messages equal, {len(recorded)} recorded, {errors.count(chr(10))} error codes")


if __name__ == "__main__":
    main(*sys.argv[1:])

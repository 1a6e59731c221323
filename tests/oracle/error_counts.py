"""What Apache Kafka 3.9.1 counts of a response in its metric ErrorsPerSec.

A case is a random response of one API and version, the same one at each call. `python -m tests.oracle.error_counts` asks Apache
Kafka's own classes about all of them, and writes the recording anew: a line for each case, of API, version and ERROR=count, or
"refused" where Apache Kafka cannot make sense of so random a response.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaResponse
from protocol.schema import Message, Response
from tests.oracle import java
from tests.oracle.versions import newest_version
from tests.protocol.instances import classes_and_versions, instance

RECORDED = java.HERE.parent / "broker" / "observability" / "error-counts-3.9.txt"
CASES_PER_VERSION = 3

Case = tuple[int, Response]
"""A version, and a response of it."""


def cases() -> Iterator[Case]:
    for response_type, version in classes_and_versions():
        if issubclass(response_type, Response) and version <= newest_version(response_type):
            source = random.Random(f"{response_type.api_name} {version}")
            for number in range(CASES_PER_VERSION):
                response = instance(response_type, version, source)
                _number(response, count())
                if isinstance(response, LeaderAndIsrResponse | StopReplicaResponse):
                    _settle(response, is_refused=number == 0)
                yield version, response


def _number(message: Message, numbers: Iterator[int]) -> None:
    """No partition and no group stands in a response twice."""
    for field in message.__fields__:
        value = getattr(message, field.name)
        if field.name == "partition_index":
            message.partition_index = next(numbers)  # type: ignore[attr-defined]  # it has this field
        if field.name == "group_id":
            message.group_id = f"group-{next(numbers)}"  # type: ignore[attr-defined]  # as above
        for element in value if isinstance(value, list) else ():
            if isinstance(element, Message):
                _number(element, numbers)


def _settle(response: LeaderAndIsrResponse | StopReplicaResponse, *, is_refused: bool) -> None:
    """Refused as a whole, each of its partitions has that error."""
    if not is_refused:
        response.error_code = ErrorCode.NONE
        return
    rows = [*response.partition_errors]
    for topic in response.topics if isinstance(response, LeaderAndIsrResponse) else ():
        rows += topic.partition_errors
    for row in rows:
        row.error_code = response.error_code


def ask() -> list[str]:
    """Return Apache Kafka's counts for all cases."""
    command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
    command[-1:] = [str(java.HERE / "CountErrors.java")]
    lines = "".join(f"{response.api_key} {version} {response.encode(version).hex()}\n" for version, response in cases())
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120)
    return run.stdout.splitlines()


def record(path: Path = RECORDED) -> None:
    answers = ("refused" if each.startswith("refused") else each for each in ask())
    lines = [
        f"{response.request_type.api_name} {version} {counts}".rstrip()
        for (version, response), counts in zip(cases(), answers, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()

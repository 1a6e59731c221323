"""What regular expressions of consumer groups match in Apache Kafka 4.3.0, and what it says of those that are not valid.

The recording is a JSON file: `inputs` are names of topics, `rows` are `[pattern, answer]`. An answer is a digit for each input,
1 where the whole of it matches, or the description of the error.

`python -m tests.oracle.re2_patterns` asks all of them again, also rows without an answer, and writes the recording anew.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.oracle import java

RECORDED = java.HERE.parent / "coordinator" / "group" / "consumer" / "re2j-1.8.json"


def recording() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def record() -> None:
    known = recording()
    patterns = [pattern for pattern, *_ in known["rows"]]
    lines = "".join(json.dumps({"pattern": each, "inputs": known["inputs"]}) + "\n" for each in patterns)
    command = java.command("", [], release=java.KRAFT_MODE)
    command[-1:] = [str(java.HERE / "Re2Patterns.java")]
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    rows = [json.dumps([pattern, answer]) for pattern, answer in zip(patterns, answers, strict=True)]
    text = f'{{"inputs": {json.dumps(known["inputs"])},\n"rows": [\n' + ",\n".join(rows) + "\n]}\n"
    RECORDED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    record()

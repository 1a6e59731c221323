"""What Apache Kafka 4.3.0's share partition answers to scripts: acquisitions, acknowledgements, failed writes, ended locks.

Neither the log nor what was stored has gaps: Kafka's start offset waits for another write where ours passes by them at once.

A recording is a JSON file of scripts with their answers, as `SharePartitions.java` describes both. `python -m
tests.oracle.share_partitions` makes the scripts from a fixed seed, asks again, and writes the recording anew.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.oracle import java

SHARES = java.HERE.parent / "replication" / "sharing" / "share-partitions-4.3.json"
SCRIPTS = 40
STEPS = 35
LOCK_MS = 1_000
MEMBERS = ("m", "n")
FRESH = 0.6
"""The share of scripts that begin without a stored state."""

Script = dict[str, Any]


def scripts_in(path: Path = SHARES) -> list[Script]:
    found: list[Script] = json.loads(path.read_text(encoding="utf-8"))
    return found


def make_scripts(seed: int = 45, count: int = SCRIPTS, steps: int = STEPS) -> list[Script]:
    chance = random.Random(seed)
    return [_script(chance, steps) for _ in range(count)]


def _script(chance: random.Random, steps: int) -> Script:
    log = _log(chance)
    start, stored = (0, []) if chance.random() < FRESH else _stored(chance)
    played: list[list[Any]] = []
    now_ms = 0
    around = 0
    for _ in range(steps):
        what = chance.choice(
            ("acquire", "acquire", "acknowledge", "acknowledge", "stored", "stored", "time", "release")
        )
        if what == "acquire":
            limited = chance.random() < 0.3
            asked = [
                chance.choice(MEMBERS),
                limited,
                chance.choice((1, 5, 10, 500)),
                chance.choice((1, 4, 10, 30, 500)),
            ]
            played.append([what, *asked, chance.choice((1, 1, 2, 3, 6))])
            around = min(around + chance.choice((0, 5, 10)), 180)
        elif what == "acknowledge":
            played.append([what, chance.choice(MEMBERS), _acknowledgements(chance, log, around)])
        elif what == "stored":
            played.append([what, chance.random() < 0.85])
        elif what == "time":
            now_ms += chance.choice((10, 100, 500, LOCK_MS, 2 * LOCK_MS))
            played.append([what, now_ms])
        elif chance.random() < 0.3:
            played.append([what, chance.choice(MEMBERS)])
    return {
        "deliveries": chance.choice((2, 3, 5, 5, 6, 10)),
        "locks": chance.choice((20, 50, 2000)),
        "lock_ms": LOCK_MS,
        "start": start,
        "stored": stored,
        "log": log,
        "steps": played,
    }


def _log(chance: random.Random) -> list[list[int]]:
    log = []
    offset = 0
    while offset < 200:
        size = chance.choice((1, 1, 3, 5, 10, 16, 20))
        log.append([offset, offset + size - 1])
        offset += size
    return log


def _stored(chance: random.Random) -> tuple[int, list[list[int]]]:
    start = chance.choice((0, 2, 7))
    offset = start
    rows = []
    for _ in range(chance.choice((1, 2, 4))):
        size = chance.choice((1, 4, 10))
        rows.append([offset, offset + size - 1, chance.choice((0, 0, 2, 4)), chance.randint(1, 3)])
        offset += size
    return start, rows


def _acknowledgements(chance: random.Random, log: list[list[int]], around: int) -> list[list[Any]]:
    """Mostly batches of the log, of one type; sometimes parts of one, several, or a type an offset."""
    rows: list[list[Any]] = []
    index = next(
        index for index, (_, last) in enumerate(log) if last >= max(0, around - chance.choice((0, 10, 30, 60)))
    )
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if index >= len(log):
            break
        first, last = log[index][0], log[min(index + chance.choice((0, 0, 0, 1, 2)), len(log) - 1)][1]
        if chance.random() < 0.4:
            first = chance.randint(first, last)
            last = chance.randint(first, last)
        if rows and first < rows[-1][1]:
            break
        kinds = chance.choice(([1], [1], [2], [2], [3], [4], [1, 2, 3, 0], [1, 1, 1, 2]))
        is_each = len(kinds) > 1
        rows.append([first, last, [chance.choice(kinds) for _ in range(last - first + 1)] if is_each else kinds])
        index += 1
    return rows


def ask(scripts: Iterable[Script]) -> list[Script]:
    """The scripts with Apache Kafka's answers."""
    options = (*java.QUICK_START, "-Dfile.encoding=UTF-8")
    command = java.command("", [], options=options, release=java.KRAFT_MODE)
    command[-1:] = [str(java.HERE / "SharePartitions.java")]
    asked = list(scripts)
    lines = "".join(json.dumps(script) + "\n" for script in asked)
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=False, timeout=300)
    if run.returncode:
        raise RuntimeError(run.stderr[-4000:])
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [{**script, "answers": answer} for script, answer in zip(asked, answers, strict=True)]


def record(path: Path = SHARES) -> None:
    lines = ",\n".join(json.dumps(script) for script in ask(make_scripts()))
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    record()

"""What Apache Kafka 3.9.1's sampled rates and token buckets answer to scripts on a clock that the script moves.

A recording is a JSON file of scripts with their answers, as `SampledRates.java` describes both. `python -m tests.oracle.rates`
makes the scripts from a fixed seed, asks again, and writes the recording anew.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.oracle import java

RATES = java.HERE.parent / "runtime" / "sampled-rates-3.9.json"
SCRIPTS_PER_KIND = 12
STEPS = 60

Script = dict[str, Any]


def scripts_in(path: Path = RATES) -> list[Script]:
    found: list[Script] = json.loads(path.read_text(encoding="utf-8"))
    return found


def make_scripts(seed: int = 31) -> list[Script]:
    chance = random.Random(seed)
    return [_script(chance, stat, number) for stat in ("rate", "tokens") for number in range(SCRIPTS_PER_KIND)]


def _script(chance: random.Random, stat: str, number: int) -> Script:
    window_ms = chance.choice((1000, 1000, 2000, 5000))
    samples = chance.choice((11, 11, 2, 1, 5))
    bound = chance.choice((5, 10, 100, 0.5, 1024, 2.0**62))
    # A bucket of Kafka's is empty in 1970.
    now_ms = chance.choice((0, 7, 1_700_000_000_123)) if stat == "rate" else 1_700_000_000_123
    steps = []
    for _ in range(STEPS):
        now_ms += _pause_ms(chance, window_ms, samples)
        what = chance.choice(("record", "record", "unrecord" if stat == "rate" else "strict", "measure"))
        value = chance.choice((0, 1, bound, bound * chance.random() * 3, bound * window_ms / 1000 * samples * 2))
        steps.append([what, round(value, 3), now_ms])
    return {"stat": stat, "window_ms": window_ms, "samples": samples, "bound": bound, "steps": steps}


def _pause_ms(chance: random.Random, window_ms: int, samples: int) -> int:
    """Mostly within a window; sometimes to its very end, over several, or over all of them."""
    choice = chance.random()
    if choice < 0.6:
        return chance.randrange(window_ms)
    if choice < 0.8:
        return window_ms + chance.choice((-1, 0, 1))
    if choice < 0.95:
        return chance.randrange(window_ms * samples)
    return window_ms * samples + chance.choice((-1, 0, 1, window_ms))


def ask(scripts: list[Script]) -> list[Script]:
    """The scripts with Apache Kafka's answers."""
    command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
    command[-1:] = [str(java.HERE / "SampledRates.java")]
    lines = "".join(json.dumps(script) + "\n" for script in scripts)
    run = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [{**script, "answers": answer} for script, answer in zip(scripts, answers, strict=True)]


def record(path: Path = RATES) -> None:
    lines = ",\n".join(json.dumps(script) for script in ask(make_scripts()))
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    record()

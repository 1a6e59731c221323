"""Asks a live Apache Kafka 3.9.1 every case and writes its answers to `recorded/kafka`.

    python -m tests.differential.record [CASE-PREFIX ...]

With `--newer` Apache Kafka 4.3.0 is asked the cases of `tests.differential.newer`, and its answers go to `recorded/kafka43`.
With `--ours` the cases that docs/differences.md names are asked of this broker, and written to `recorded/barnabas`, or with
`--newer` to `recorded/barnabas43`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import defaultdict

from tests.differential import cases, newer, recording
from tests.differential.exceptions import NEWER_ANSWERS, differing_cases
from tests.differential.play import CASES, NEWER_CASES, Case, ungrouped
from tests.differential.stages import Stages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.record")
    parser.add_argument("prefixes", nargs="*", help="only cases whose id starts so, such as Fetch or Metadata-auto")
    parser.add_argument("--ours", action="store_true", help="record this broker's answers to the listed differences")
    parser.add_argument("--newer", action="store_true", help="the cases that Apache Kafka 4.3.0 decides")
    arguments = parser.parse_args()
    cases.load_all()
    newer.load_all()
    prefixes = tuple(arguments.prefixes)
    known = NEWER_CASES if arguments.newer else CASES
    wanted = [case for case in known.values() if not prefixes or case.id.startswith(prefixes)]
    whose = "barnabas" if arguments.ours else "kafka"
    if arguments.ours:
        differing = differing_cases(NEWER_ANSWERS) if arguments.newer else differing_cases()
        wanted = [case for case in wanted if case.id in differing]
    with Stages(whose) as stages:
        return record(wanted, known, stages, recording.NEWER[whose] if arguments.newer else whose)


def record(cases: list[Case], all_cases: dict[str, Case], stages: Stages, whose: str) -> int:
    by_api: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_api[case.api.api_name].append(case)
    failures = 0
    for api_name, wanted in by_api.items():
        started = time.monotonic()
        known = recording.load(api_name, whose)
        played = {}
        for name, entry in known.items():
            if f"{api_name}-{name}" in all_cases:
                played[name] = ungrouped(entry["answers"])
        for case in wanted:
            try:
                played[case.name] = stages.play(case)
            except Exception:  # noqa: BLE001 - one broken case must not lose the others
                failures += 1
                print(f"FAILED {case.id}", file=sys.stderr)
                traceback.print_exc(limit=-3)
        recording.save(
            api_name,
            played,
            {case.name: case.kind for case in all_cases.values() if case.api.api_name == api_name},
            whose,
        )
        print(f"{api_name}: {len(wanted)} cases, {time.monotonic() - started:.1f} s")
    return failures


if __name__ == "__main__":
    sys.exit(main())

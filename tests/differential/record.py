"""Asks a live Apache Kafka 3.9.1 every case and writes its answers to `recorded/kafka`.

    python -m tests.differential.record [CASE-PREFIX ...]

With `--ours` the cases that docs/differences.md names are asked of this broker, and written to `recorded/barnabas`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import defaultdict

from tests.differential import recording
from tests.differential.cases import load_all
from tests.differential.exceptions import differing_cases
from tests.differential.play import CASES, Case, ungrouped
from tests.differential.stages import Stages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.record")
    parser.add_argument("prefixes", nargs="*", help="only cases whose id starts so, such as Fetch or Metadata-auto")
    parser.add_argument("--ours", action="store_true", help="record this broker's answers to the listed differences")
    arguments = parser.parse_args()
    load_all()
    prefixes = tuple(arguments.prefixes)
    cases = [case for case in CASES.values() if not prefixes or case.id.startswith(prefixes)]
    whose = "barnabas" if arguments.ours else "kafka"
    if arguments.ours:
        differing = differing_cases()
        cases = [case for case in cases if case.id in differing]
    with Stages(whose) as stages:
        return record(cases, stages, whose)


def record(cases: list[Case], stages: Stages, whose: str) -> int:
    by_api: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_api[case.api.api_name].append(case)
    failures = 0
    for api_name, wanted in by_api.items():
        started = time.monotonic()
        known = recording.load(api_name, whose)
        played = {}
        for name, entry in known.items():
            if f"{api_name}-{name}" in CASES:
                played[name] = ungrouped(entry["answers"])
        for case in wanted:
            try:
                played[case.name] = stages.play(case)
            except Exception:  # noqa: BLE001 - one broken case must not lose the others
                failures += 1
                print(f"FAILED {case.id}", file=sys.stderr)
                traceback.print_exc(limit=-3)
        recording.save(
            api_name, played, {case.name: case.kind for case in CASES.values() if case.api.api_name == api_name}, whose
        )
        print(f"{api_name}: {len(wanted)} cases, {time.monotonic() - started:.1f} s")
    return failures


if __name__ == "__main__":
    sys.exit(main())

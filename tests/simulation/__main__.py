"""`python -m tests.simulation --seeds N [--seed S] [--trace]`: run histories; a failing one is printed as its command."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.history import Outcome, run


def command_for(seed: int) -> str:
    return f"PYTHONHASHSEED=0 python -m tests.simulation --seed {seed} --trace"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--keep-going", action="store_true")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
                  {**os.environ, "PYTHONHASHSEED": "0"})
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    failures: list[Outcome] = []
    for seed in seeds:
        began = time.perf_counter()
        outcome = run(seed)
        took = time.perf_counter() - began
        if options.trace:
            print("\n".join(outcome.lines))
        if outcome.violation is not None or options.seed is not None:
            print(f"seed {seed}: {outcome.violation or 'ok'} [{outcome.virtual_s:.1f} s, {took:.2f} s real, {outcome.digest[:16]}]")
        if options.seed is not None:
            for name, count in sorted(outcome.coverage.items()): print(f"  {count:6} {name}")
        if outcome.violation is not None:
            print(command_for(seed))
            failures.append(outcome)
            if not options.keep_going:
                break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

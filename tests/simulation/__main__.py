"""`python -m tests.simulation [--cluster] [--storage | --ranges | --transactions | --store | --groups | --shares | --relay]
[--seeds N] [--seed S] [--trace] [--mutants [NAME ...]]` runs histories.

A seed knows nothing of the one before it, so seeds, and mutants, are shared out to as many processes as there are cores
(`--jobs`); what is printed is in their order. A failing seed is printed as the command that repeats it.

Exit codes: 0 all held; 1 a promise was broken, or a mutant lived; 2 the histories met too little to prove anything.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tests.simulation import coverage as one_broker
from tests.simulation import history
from tests.simulation.cluster import coverage as cluster
from tests.simulation.cluster import history as cluster_history
from tests.simulation.coverage import shortfalls
from tests.simulation.groups import coverage as groups_coverage
from tests.simulation.groups import history as groups_history
from tests.simulation.history import Outcome
from tests.simulation.loop import Trace
from tests.simulation.mutants.catalogue import ALL, hunt
from tests.simulation.relays import coverage as relay_coverage
from tests.simulation.relays import history as relay_history
from tests.simulation.shares import coverage as shares_coverage
from tests.simulation.shares import history as shares_history
from tests.simulation.storage import case as storage_case
from tests.simulation.storage import coverage as storage_coverage
from tests.simulation.storage import ranges
from tests.simulation.store_server import coverage as store_coverage
from tests.simulation.store_server import history as store_history
from tests.simulation.transactions import coverage as transactions_coverage
from tests.simulation.transactions import history as transactions_history

MUTANT_SEEDS = 500
GARBAGE_MAX = 20_000  # objects between two looks for it: a history makes much that lives as long as itself
COVERED_SEEDS = 100  # fewer say little about how often something is met


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of histories."""

    flag: str
    run: Callable[[int], Outcome]
    minimums: Mapping[str, int]

    def command_for(self, seed: int) -> str:
        return f"PYTHONHASHSEED=0 python -m tests.simulation{self.flag} --seed {seed} --trace"


ONE_BROKER = Kind("", history.run, one_broker.MINIMUMS)
CLUSTER = Kind(" --cluster", cluster_history.run, cluster.MINIMUMS)
TRANSACTIONS = Kind(" --transactions", transactions_history.run, transactions_coverage.MINIMUMS)
CLUSTER_TRANSACTIONS = Kind(
    " --cluster --transactions", transactions_history.run_cluster, transactions_coverage.CLUSTER_MINIMUMS
)
RANGES = Kind(" --ranges", ranges.run, ranges.MINIMUMS)
CLUSTER_STORE = Kind(
    " --cluster --store", cluster_history.run_over_server, {**cluster.MINIMUMS, **cluster.SERVER_MINIMUMS}
)
STORE = Kind(" --store", store_history.run, store_coverage.MINIMUMS)
GROUPS = Kind(" --groups", groups_history.run, groups_coverage.MINIMUMS)
SHARES = Kind(" --shares", shares_history.run, shares_coverage.MINIMUMS)
RELAY = Kind(" --relay", relay_history.run, relay_coverage.MINIMUMS)
STORAGE = Kind(" --storage", storage_case.run, storage_coverage.MINIMUMS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Seeded histories of brokers.")
    parser.add_argument("--cluster", action="store_true", help="histories of clusters, not of one broker")
    parser.add_argument("--storage", action="store_true", help="crashes of the storage engine alone")
    parser.add_argument("--ranges", action="store_true", help="ranges of one log's files on their way to readers")
    parser.add_argument("--store", action="store_true", help="histories of the store server, or of a cluster over it")
    parser.add_argument("--groups", action="store_true", help="histories of groups, in a cluster with feature levels")
    parser.add_argument(
        "--shares", action="store_true", help="histories of share groups, in a cluster with feature levels"
    )
    parser.add_argument("--relay", action="store_true", help="histories of the relay, beside a cluster")
    parser.add_argument("--transactions", action="store_true", help="histories of transactions, in a cluster or not")
    parser.add_argument("--seeds", type=int, default=200, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes that run them (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first failure")
    parser.add_argument("--coverage", action="store_true", help="print what was met, and how often")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="hunt these planted bugs, or all")
    parser.add_argument("--within", type=int, default=MUTANT_SEEDS, help="seeds to find one in (default %(default)s)")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings have another order in each process otherwise
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look at it again with every history
    gc.set_threshold(GARBAGE_MAX)
    if options.mutants is not None:
        return _hunt(options.mutants, range(options.within), options.jobs)
    kind = _kind(options)
    if options.seed is not None:
        return _one(kind, options.seed, trace=options.trace)
    return _many(kind, range(options.first, options.first + options.seeds), options)


def _kind(options: argparse.Namespace) -> Kind:
    if options.transactions:
        return CLUSTER_TRANSACTIONS if options.cluster else TRANSACTIONS
    if options.groups:
        return GROUPS
    if options.shares:
        return SHARES
    if options.relay:
        return RELAY
    if options.store:
        return CLUSTER_STORE if options.cluster else STORE
    if options.ranges:
        return RANGES
    return CLUSTER if options.cluster else STORAGE if options.storage else ONE_BROKER


def _one(kind: Kind, seed: int, *, trace: bool) -> int:
    if trace:
        Trace.KEPT_LINES = sys.maxsize
    outcome = kind.run(seed)
    if trace:
        print("\n".join(outcome.lines))
    _print_coverage(outcome.coverage)
    print(f"seed {seed}: {outcome.violation or 'holds'}; {outcome.virtual_s:.1f} s, trace {outcome.digest}")
    return 0 if outcome.violation is None else 1


def _many(kind: Kind, seeds: range, options: argparse.Namespace) -> int:
    started_s = time.perf_counter()
    coverage: Counter[str] = Counter()
    failures: list[Outcome] = []
    with _outcomes(kind, seeds, options.jobs) as outcomes:
        for seed, outcome in zip(seeds, outcomes, strict=True):
            coverage += outcome.coverage
            if outcome.violation is not None:
                failures.append(outcome)
                print(f"seed {seed}: {outcome.violation}\n  {kind.command_for(seed)}", flush=True)
                if not options.keep_going:
                    return 1
    if options.coverage:
        _print_coverage(coverage)
    took_s = time.perf_counter() - started_s
    print(f"{len(seeds)} seeds, {len(failures)} failures, {coverage['virtual seconds']} virtual s in {took_s:.0f} s")
    if failures:
        return 1
    short = shortfalls(coverage, len(seeds), kind.minimums) if len(seeds) >= COVERED_SEEDS else []
    for line in short:
        print(f"met too seldom: {line}")
    return 2 if short else 0


@contextmanager
def _outcomes(kind: Kind, seeds: range, jobs: int) -> Iterator[Iterable[Outcome]]:
    """What became of each seed, in their order. Whoever leaves early leaves no process behind.

    Processes are forked: they share what was imported, and a history starts no thread that a fork could lose.
    """
    if jobs == 1:
        yield map(kind.run, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:  # its end terminates them
        yield pool.imap(kind.run, seeds)


def _print_coverage(coverage: Counter[str]) -> None:
    for name, count in sorted(coverage.items()):
        print(f"{count:9} {name}")


def _hunt(names: Iterable[str], seeds: range, jobs: int) -> int:
    wanted = set(names) or {mutant.name for mutant in ALL}
    unknown = wanted - {mutant.name for mutant in ALL}
    if unknown:
        print(f"no such mutants: {', '.join(sorted(unknown))}")
        return 2
    lived = 0
    numbers = [number for number, mutant in enumerate(ALL) if mutant.name in wanted]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for name, seeds_count, violation in pool.imap(partial(_hunt_one, seeds), numbers):
            lived += violation is None
            verdict = "LIVED" if violation is None else violation.splitlines()[0][:150]
            print(f"{name}: {seeds_count} seeds: {verdict}", flush=True)
    return 1 if lived else 0


def _hunt_one(seeds: range, number: int) -> tuple[str, int, str | None]:
    """A mutant does not travel between processes, its number in ALL does."""
    found = hunt(ALL[number], seeds)
    return found.mutant.name, found.seeds, found.violation


if __name__ == "__main__":
    sys.exit(main())

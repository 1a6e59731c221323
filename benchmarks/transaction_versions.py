"""Transactions of one record in both versions, one beside the other on one broker: `python -m benchmarks.transaction_versions`.

Without a client library, whose waits would hide what the requests cost. The two take turns, so that a machine whose speed
changes changes it for both; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
from statistics import median

from barnabas.embedded import EmbeddedBroker
from benchmarks.transactions import raw_commits
from benchmarks.workloads import Target
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH

RATE = "commits per second"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transaction_versions")
    parser.add_argument("--transactions", type=int, default=1_000, help="of each version in each turn")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    with EmbeddedBroker(settings={"barnabas.initial.features": "newest"}) as broker:
        target = Target(broker.bootstrap_servers)
        rates: dict[int, list[float]] = {ONE_EPOCH: [], EPOCH_BUMPS: []}
        for turn in range(arguments.turns):
            for version, found in rates.items():
                figures = raw_commits(target, transactions=arguments.transactions, records=1, version=version)
                found.append(figures[RATE])
                shown = "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())
                print(f"turn {turn + 1}  version {1 if version == ONE_EPOCH else 2}: {shown}", flush=True)
        ratio = median(rates[EPOCH_BUMPS]) / median(rates[ONE_EPOCH])
        print(f"version 2 beside version 1: {ratio:.2f} times as many commits")


if __name__ == "__main__":
    main()

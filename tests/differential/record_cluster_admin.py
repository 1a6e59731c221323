"""Asks three live brokers of Apache Kafka 3.9.1 every scenario and writes their answers to `recorded/cluster_admin`.

python -m tests.differential.record_cluster_admin
"""

from __future__ import annotations

import sys
import time

from tests.differential.cluster_run import ClusterRun, save
from tests.differential.cluster_scenarios import SCENARIOS
from tests.oracle.cluster import KAFKA


def main(kind: str = KAFKA) -> None:
    with ClusterRun(kind) as run:
        for name, play in SCENARIOS.items():
            started = time.monotonic()
            play(run)
            save(name, run.take())
            print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

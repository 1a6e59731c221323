"""Plays every scenario to three live brokers of Apache Kafka 3.9.1, and writes to `recorded/cluster_states` what became of the
states of partitions.

python -m tests.differential.record_cluster_states
"""

from __future__ import annotations

import sys

from tests.differential.cluster_states import played, save
from tests.oracle.cluster import KAFKA


def main() -> None:
    for name, history in played(KAFKA):
        save(name, history)
        print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())

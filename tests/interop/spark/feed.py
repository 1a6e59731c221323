"""The client that feeds a Spark test, in a process of its own: confluent-kafka, many records to a batch.

    python -m tests.interop.spark.feed BOOTSTRAP_SERVERS TOPIC PARTITIONS FIRST COUNT

Record n goes to partition n % PARTITIONS with timestamp START_MS + n * 1000, key and value that tell n, and two headers.
Each call ends with everything acknowledged.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

START_MS = 1_769_853_600_000  # 2026-01-31T10:00:00Z
REPOSITORY = Path(__file__).resolve().parents[3]
SHOPS = ("Antwerp", "Lyon", "Turin")


def timestamp_ms(n: int) -> int:
    return START_MS + n * 1000


def key(n: int) -> str:
    return SHOPS[n % len(SHOPS)]


def amount(n: int) -> float:
    return n % 50 + 0.5


def value(n: int) -> str:
    time = datetime.fromtimestamp(timestamp_ms(n) / 1000, UTC).isoformat()
    return json.dumps({"key": key(n), "amount": amount(n), "time": time, "n": n})


def feed(bootstrap_servers: str, topic: str, partitions: int, first: int, count: int) -> None:
    """Run this module as a process and wait for it."""
    command = [sys.executable, "-m", "tests.interop.spark.feed", bootstrap_servers, topic]
    command += [str(partitions), str(first), str(count)]
    subprocess.run(command, check=True, timeout=180, cwd=REPOSITORY)


def main() -> None:
    from confluent_kafka import Producer

    bootstrap_servers, topic = sys.argv[1:3]
    partitions, first, count = map(int, sys.argv[3:])
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 200_000,  # until flush: as few batches as can be
            "batch.num.messages": 500,
            "compression.type": "lz4",
            "enable.idempotence": True,
        }
    )
    for n in range(first, first + count):
        producer.produce(
            topic,
            value=value(n),
            key=key(n),
            partition=n % partitions,
            timestamp=timestamp_ms(n),
            headers=[("n", str(n).encode()), ("empty", b"")],
            on_delivery=lambda error, _message: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    if producer.flush(120) or failures:
        sys.exit(f"not delivered: {failures[:3]}")


if __name__ == "__main__":
    main()

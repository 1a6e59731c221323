"""`python -m benchmarks.compaction [--mb 1024] [--value-bytes 1000] [--keys 100000] [--only ours|kafka]`: the cleaner's speed.

One partition is filled, while its records are too young to be cleaned, with random keys; then `min.compaction.lag.ms` is
set to 0. Measured, of this broker and of Apache Kafka one after the other, each with default settings but for the backoff
of its cleaner:
- from that change until `cleaner-offset-checkpoint` names the active segment: MB/s of the log as it was;
- processor time and the growth of the largest resident memory meanwhile, by /proc;
- what a client notices: round trips of a small request, one after the other, before and meanwhile.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from benchmarks.process import usage
from benchmarks.wire import connect
from protocol.header import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from storage.checkpoint import decode_offsets
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka

TOPIC = "compacted"
TIMEOUT_S = 600.0
QUIET_S = 2.0
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0"}
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SEGMENTS = 16
TOO_YOUNG = {"min.compaction.lag.ms": "9000000000000"}

Figures = dict[str, float]


def fill(bootstrap: str, total_bytes: int, value_bytes: int, keys: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 100_000, "acks": "1"})
    rng, payload = random.Random(1), os.urandom(value_bytes + 4096)
    for number in range(total_bytes // (value_bytes + 24)):
        start = number % 4096
        key = b"key-%012d" % rng.randrange(keys)
        while True:
            try:
                producer.produce(TOPIC, key=key, value=payload[start : start + value_bytes], partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def folder_of(broker: Broker) -> Path:
    return broker.data / f"{TOPIC}-0"


def size_of(broker: Broker) -> int:
    return sum(path.stat().st_size for path in folder_of(broker).glob("*.log"))


def is_clean(broker: Broker, active_base: int) -> bool:
    path = broker.data / "cleaner-offset-checkpoint"
    return path.exists() and decode_offsets(path.read_bytes()).get((TOPIC, 0)) == active_base


def round_trips(broker: Broker, is_over: Callable[[], bool]) -> list[float]:
    """Milliseconds of each until then."""
    frame = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "bench"))
    found = []
    with connect(("127.0.0.1", broker.port)) as stream:
        while not is_over():
            started = time.perf_counter()
            stream.sendall(frame)
            missing = int.from_bytes(stream.recv(4, socket.MSG_WAITALL), "big")
            stream.recv(missing, socket.MSG_WAITALL)
            found.append((time.perf_counter() - started) * 1000)
            time.sleep(0.005)
    return sorted(found)


def measure(broker: Broker, total_bytes: int, value_bytes: int, keys: int) -> Figures:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    config = {**CONFIG, "segment.bytes": str(total_bytes // SEGMENTS)}
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1, config={**config, **TOO_YOUNG})]).values():
        created.result(60)
    fill(broker.bootstrap_servers, total_bytes, value_bytes, keys)
    before = size_of(broker)
    active_base = max(int(path.stem) for path in folder_of(broker).glob("*.log"))
    assert broker.process is not None
    pid = broker.process.pid
    quiet_ends = time.monotonic() + QUIET_S
    quiet = round_trips(broker, lambda: time.monotonic() > quiet_ends)
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here
    used_before = usage(pid)
    started = time.monotonic()
    changed = ConfigResource(ResourceType.TOPIC, TOPIC, set_config={**config, "min.compaction.lag.ms": "0"})
    for done in admin.alter_configs([changed]).values():
        done.result(60)
    trips = round_trips(broker, lambda: is_clean(broker, active_base) or time.monotonic() - started > TIMEOUT_S)
    took_s = time.monotonic() - started
    assert is_clean(broker, active_base), "the log was not cleaned in time"
    used = usage(pid)
    return {
        "log, MB": before / 1e6,
        "left, MB": size_of(broker) / 1e6,
        "cleaning, s": took_s,
        "MB/s": before / 1e6 / took_s,
        "CPU, s": used.cpu_seconds - used_before.cpu_seconds,
        "memory above quiet, MB": (used.peak_bytes - used_before.peak_bytes) / 1e6,
        "memory at its peak, MB": used.peak_bytes / 1e6,
        "quiet round trip p50, ms": quiet[len(quiet) // 2],
        "quiet round trip p99, ms": quiet[len(quiet) * 99 // 100],
        "round trip meanwhile p50, ms": trips[len(trips) // 2],
        "round trip meanwhile p99, ms": trips[len(trips) * 99 // 100],
        "longest round trip, ms": trips[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--only", choices=("ours", "kafka"))
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}", file=sys.stderr)
    columns: dict[str, Figures] = {}
    for name, kind in (("ours", Barnabas), ("kafka", ApacheKafka)):
        if options.only in (None, name):
            with kind(settings=SETTINGS) as broker:
                columns[name] = measure(broker, options.mb << 20, options.value_bytes, options.keys)
    print(f"{'':32}" + "".join(f"{name:>12}" for name in columns))
    for row in next(iter(columns.values())):
        print(f"{row:32}" + "".join(f"{figures[row]:12.1f}" for figures in columns.values()))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.store_server [PARTITIONS]`: how long partitions take to be created over the store server, and over the
ZooKeeper that Apache Kafka 3.9.1 was built with.

The client is the brokers' own, in this process; what it writes is what a controller writes for a topic: for each partition its
node and its state in one transaction, in pipelines. Both servers flush before they answer. Each is measured in turn, several
times; the best of each counts. `first answer` is one small write alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import Final

from metadata.store import znodes
from metadata.store.port import Create, Delete, Store, StoreError, Transaction, ensure_path
from metadata.store.znodes import PartitionState
from tests.metadata.store.zookeeper_world import client_of
from tests.oracle.process import Server
from tests.oracle.store_server import StoreServerProcess
from tests.oracle.zookeeper import ZooKeeper

PARTITIONS: Final = 10_000
ROUNDS: Final = 3
SESSION_TIMEOUT_MS: Final = 60_000
SINGLE_WRITES: Final = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in s; `cpu_s` is the server's."""

    create_s: float
    cpu_s: float
    single_s: float


def main() -> int:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    best: dict[str, Measured] = {}
    with ZooKeeper(properties={"forceSync": "yes"}) as zookeeper, StoreServerProcess() as own:
        connects = {"ZooKeeper": (zookeeper, zookeeper.connect), "barnabas store": (own, own.connect)}
        for _ in range(ROUNDS):
            for name, (server, connect) in connects.items():
                measured = asyncio.run(_measure(server, connect, partitions))
                print(
                    f"{name:16} {partitions} partitions {measured.create_s:.2f} s, server's CPU {measured.cpu_s:.2f} s, "
                    f"a write alone {measured.single_s * 1000:.2f} ms",
                    flush=True,
                )
                before = best.get(name, measured)
                best[name] = min(before, measured, key=lambda each: each.create_s)
    ratio = best["barnabas store"].create_s / best["ZooKeeper"].create_s
    print(f"barnabas store takes {ratio:.2f} of ZooKeeper's time")
    return 0


async def _measure(server: Server, connect: str, partitions: int) -> Measured:
    async with client_of(connect, session_timeout_ms=SESSION_TIMEOUT_MS) as client:
        store = client.store
        await ensure_path(store, znodes.partitions_path("t"))
        state = PartitionState(1, 0, (1,), 1).encode()
        paths = [znodes.partition_path("t", partition) for partition in range(partitions)]
        begun_s, cpu_s = time.perf_counter(), _cpu_s(server)
        await _write(store, [(Create(path), Create(f"{path}/state", state)) for path in paths])
        create_s, cpu_s = time.perf_counter() - begun_s, _cpu_s(server) - cpu_s
        begun_s = time.perf_counter()
        for number in range(SINGLE_WRITES):
            await store.set("/brokers", str(number).encode())
        single_s = (time.perf_counter() - begun_s) / SINGLE_WRITES
        await _write(store, [(Delete(f"{path}/state"), Delete(path)) for path in paths])
    return Measured(create_s, cpu_s, single_s)


async def _write(store: Store, transactions: list[Transaction]) -> None:
    for outcome in await store.write_many(transactions):
        if isinstance(outcome, StoreError):
            raise outcome


def _cpu_s(server: Server) -> float:
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    sys.exit(main())

"""Brokers of one cluster, each Apache Kafka's or ours, over one ZooKeeper: started, stopped, killed, hung, replaced.

A member keeps its id and port for as long as the cluster lives, so that clients find it again. What the cluster is like
is asked of ZooKeeper itself (`leader`, `isr`, `controller`), which none of the brokers under test can colour. Folders with logs
are removed after success; KEEP_CLUSTERS=1 keeps them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.process import StartError, wait_until
from tests.oracle.readiness import listed_brokers
from tests.oracle.store_server import StoreServerProcess
from tests.oracle.zookeeper import SMALL, Ensemble

KAFKA = "kafka"
OURS = "barnabas"

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
}
"""Those of every member: leaders move only when a test moves them."""

FOREVER = {"max_tries": -1, "delay": 0.1, "backoff": 1}
"""How the tests ask ZooKeeper while its servers come and go."""


@dataclass(frozen=True)
class PartitionState:
    """The znode of a partition. `version` is the partition epoch."""

    leader: int
    isr: list[int]
    leader_epoch: int
    controller_epoch: int
    version: int


class Cluster:
    """`kinds` says who is broker 1, 2, ...; `settings` are added to those of every member. A `store` stands in the place of
    ZooKeeper."""

    def __init__(
        self,
        kinds: Iterable[str] = (KAFKA, KAFKA, KAFKA),
        *,
        settings: Mapping[str, str] | None = None,
        zookeeper_servers: int = 1,
        store: StoreServerProcess | None = None,
        chroot: str = "",
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.zookeeper = Ensemble(self.folder, zookeeper_servers) if store is None else store
        self.chroot = chroot
        self.settings = {**SETTINGS, **(settings or {})}
        self.brokers: dict[int, Broker] = {}
        self._ports: dict[int, int] = {}
        self._generation = 0
        for number, kind in enumerate(kinds, 1):
            self.add(number, kind)
        self._kazoo: KazooClient | None = None

    # --- members ---

    def add(self, broker_id: int, kind: str, settings: Mapping[str, str] | None = None) -> Broker:
        """A member with an empty directory, not started."""
        port = self._ports.setdefault(broker_id, lasting_port())
        self._generation += 1
        folder = self.folder / f"broker-{broker_id}-{self._generation}-{kind}"
        folder.mkdir()
        given = {"broker.rack": f"rack-{broker_id}", **self.settings, **(settings or {})}
        connect = self.zookeeper.connect + self.chroot
        broker: Broker
        if kind == KAFKA:
            broker = KafkaServer(connect, broker_id=broker_id, port=port, settings=given, folder=folder, options=SMALL)
        else:
            broker = Barnabas(given, folder, zookeeper=connect, broker_id=broker_id, port=port)
        self.brokers[broker_id] = broker
        return broker

    def replace(self, broker_id: int, kind: str, settings: Mapping[str, str] | None = None) -> Broker:
        """Stop a member in order; one of `kind` takes its id and port, with an empty directory."""
        self.brokers[broker_id].stop()
        broker = self.add(broker_id, kind, settings)
        broker.start()
        return broker

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> None:
        """ZooKeeper, then every member at once; returns when each lists all of them."""
        self.start_zookeeper()
        with ThreadPoolExecutor(max(1, len(self.brokers))) as pool:
            list(pool.map(lambda broker: broker.start(), self.brokers.values()))
        self.wait_until_known()

    def start_zookeeper(self) -> None:
        self.zookeeper.start()
        quiet = logging.getLogger("tests.oracle.kazoo")
        quiet.setLevel(logging.ERROR)  # that servers go away is what the tests are about
        self._kazoo = KazooClient(
            hosts=self.zookeeper.connect + self.chroot,
            timeout=10,
            connection_retry=FOREVER,
            command_retry=FOREVER,
            logger=quiet,
        )
        self._kazoo.start(timeout=30)
        if self.chroot:
            self._kazoo.ensure_path("/")

    # --- what ZooKeeper says ---

    @property
    def kazoo(self) -> KazooClient:
        assert self._kazoo is not None, "the cluster has not started"
        return self._kazoo

    def read(self, path: str) -> Any:
        """The JSON of a znode; None when it is not there."""
        try:
            data, _ = self.kazoo.retry(self.kazoo.get, path)
        except NoNodeError:
            return None
        return json.loads(data) if data else None

    def registered(self) -> set[int]:
        try:
            return {int(name) for name in self.kazoo.retry(self.kazoo.get_children, "/brokers/ids")}
        except NoNodeError:
            return set()

    @property
    def controller_id(self) -> int:
        """-1 when there is none."""
        found = self.read("/controller")
        return -1 if found is None else int(found["brokerid"])

    @property
    def controller(self) -> Broker:
        seen: list[int] = []

        def is_there() -> bool:
            seen.append(self.controller_id)
            return seen[-1] in self.brokers

        self.wait_for("there is a controller", is_there)
        return self.brokers[seen[-1]]

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        try:
            data, stat = self.kazoo.retry(self.kazoo.get, path)
        except NoNodeError:
            return None
        state = json.loads(data)
        return PartitionState(
            state["leader"], state["isr"], state["leader_epoch"], state["controller_epoch"], stat.version
        )

    def leader_id(self, topic: str, partition: int = 0) -> int:
        state = self.partition(topic, partition)
        return -1 if state is None else state.leader

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        state = self.partition(topic, partition)
        return set() if state is None else set(state.isr)

    def partitions(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each partition."""
        found = self.read(f"/brokers/topics/{topic}") or {"partitions": {}}
        return {int(partition): replicas for partition, replicas in found["partitions"].items()}

    def is_in_sync(self, topic: str) -> bool:
        """Whether every replica of every partition is in its ISR."""
        partitions = self.partitions(topic)
        return bool(partitions) and all(self.isr(topic, one) == set(replicas) for one, replicas in partitions.items())

    def topics(self) -> list[str]:
        return sorted(self.kazoo.retry(self.kazoo.get_children, "/brokers/topics"))

    # --- waiting ---

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        if not wait_until(condition, timeout_s):
            raise TimeoutError(f"not within {timeout_s:g} s: {what}\n{self.describe()}")

    def wait_until_known(self) -> None:
        """Until every broker that runs lists every broker that runs."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        self.wait_for(
            "every broker knows every other",
            lambda: all(listed_brokers("127.0.0.1", broker.port) == len(running) for broker in running),
        )

    def wait_in_sync(self, *topics: str, timeout_s: float = 90.0) -> None:
        for topic in topics or self.topics():
            self.wait_for(f"every replica of {topic} is in sync", lambda t=topic: self.is_in_sync(t), timeout_s)  # type: ignore[misc]

    def describe(self) -> str:
        """For a failure: who runs, who is registered, who leads what."""
        lines = [
            f"broker {one}: {broker.kind}, {'runs' if broker.is_running else 'does not run'}, log {broker.log}"
            for one, broker in self.brokers.items()
        ]
        lines.append(f"registered {sorted(self.registered())}, controller {self.controller_id}")
        for topic in self.topics():
            for partition, replicas in sorted(self.partitions(topic).items())[:6]:
                lines.append(f"{topic}-{partition} replicas {replicas} {self.partition(topic, partition)}")
        return "\n".join(lines)

    # --- the end ---

    def disconnect(self) -> None:
        """End the connection to ZooKeeper, and its threads. Nothing can be asked of it any more."""
        if self._kazoo is not None:
            self._kazoo.stop()
            self._kazoo.close()
            self._kazoo = None

    def close(self) -> None:
        """Kill everybody. Folders are kept until `__exit__` without an error."""
        for broker in self.brokers.values():
            broker.kill()
        self.disconnect()
        self.zookeeper.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except (StartError, TimeoutError):
            print(f"cluster: the logs are kept in {self.folder}", file=sys.stderr)
            self.close()
            raise
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and not os.environ.get("KEEP_CLUSTERS"):
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"cluster: the logs are kept in {self.folder}", file=sys.stderr)

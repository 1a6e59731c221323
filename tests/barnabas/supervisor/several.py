"""Several brokers in processes of their own, started by the command, and always gone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.launch import command

PATIENCE_S = 60.0
ROOT = Path(__file__).resolve().parents[3]
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "zookeeper.session.timeout.ms": "6000",
}


def start_line(folder: Path, *arguments: str, settings: dict[str, str] | None = None) -> list[str]:
    """The command line of a start on free ports with its data below `folder`."""
    given = {"log.dirs": str(folder / "data"), **SETTINGS, **(settings or {})}
    return command("start", *arguments, *(part for name in given for part in ("--override", f"{name}={given[name]}")))


class Several:
    """Runs them within `with`. `addresses` and `processes` are those of the table that the command prints, by name."""

    def __init__(
        self,
        folder: Path,
        count: int,
        *arguments: str,
        settings: dict[str, str] | None = None,
        environment: dict[str, str] | None = None,
        line: Sequence[str] = (),
        stderr: int | None = None,
    ) -> None:
        """`line` is another command line, `stderr` a descriptor that gets its log."""
        self._stderr = stderr
        self.log = folder / "log"
        self._line = list(line) or start_line(folder, "--brokers", str(count), *arguments, settings=settings)
        self._environment = environment
        self.addresses: dict[str, str] = {}
        self.processes: dict[str, int] = {}
        self.banner = ""

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._line,
                stdout=subprocess.PIPE,
                stderr=log if self._stderr is None else self._stderr,
                text=True,
                env=self._environment,
                start_new_session=True,
                cwd=ROOT,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.banner += line
            words = line.split()
            if line.startswith(("  broker ", "  store ", "  web ", "  relay ")):
                name = " ".join(words[:-3])
                self.addresses[name], self.processes[name] = words[-3], int(words[-1])
            if "cluster health" in line:
                return self
        self.close()
        raise AssertionError(f"they did not start:\n{self.log.read_text()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is not None:
            error.add_note(self.log.read_text()[-6000:])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(address for name, address in self.addresses.items() if name.startswith("broker"))


def produce(bootstrap_servers: str, topic: str, values: Sequence[str], **settings: object) -> None:
    """Return when all replicas in sync have them."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 0, **settings})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def in_sync(bootstrap_servers: str, topic: str) -> list[int]:
    """The replicas of partition 0 in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    return sorted(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0].isrs)


def read(bootstrap_servers: str, topic: str, count: int) -> list[str]:
    """The first records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    try:
        until(lambda: len(values) >= count, lambda: _take(consumer, values))
    finally:
        consumer.close()
    return values


def _take(consumer: Consumer, values: list[str]) -> None:
    message = consumer.poll(0.1)
    if message is not None and message.error() is None:
        values.append((message.value() or b"").decode())


def until(is_true: Callable[[], bool], meanwhile: Callable[[], None] = lambda: time.sleep(0.02)) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        meanwhile()


def lives(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def name_of(process_id: int) -> str:
    return Path(f"/proc/{process_id}/comm").read_text().strip()


def kill(process_id: int) -> None:
    os.kill(process_id, signal.SIGKILL)

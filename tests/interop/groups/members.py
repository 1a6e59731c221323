"""Members of groups by real clients, of either group protocol, that read along in threads of their own.

A member commits what it has read before it gives partitions up, so that without faults every record is read once.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.clients.java_clients import JavaClients
from tests.oracle.process import wait_until, watch_over

CLASSIC, CONSUMER = "classic", "consumer"
"""The group protocols, as `group.protocol` names them."""
NEWEST_JAVA = "4.3.0"
CLIENTS = ("librdkafka", "Java", "franz-go")
PATIENCE_S = 90.0
POLL_MS = 100

_numbers = itertools.count()


class JavaConsumer:
    """One of `KafkaConsumer` in a JVM."""

    def __init__(self, jvm: JavaClients, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self._jvm = jvm
        self._name = f"member-{next(_numbers)}"
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        jvm.ask(self._name, "consumer", config=config)
        jvm.ask(self._name, "subscribe", topic=topic, commits=True)

    def poll(self) -> list[int]:
        return [int(value) for _, _, value in self._jvm.ask(self._name, "poll", timeout_ms=POLL_MS)]

    def assignment(self) -> set[int]:
        return set(self._jvm.ask(self._name, "assignment"))

    def close(self) -> list[int]:
        self._jvm.ask(self._name, "close consumer")
        return []


class LibrdkafkaConsumer:
    """One of confluent-kafka."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str, **settings: Any) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
        self.failed_commits = 0
        """Those that a broker's end prevented: what was read is read again by the next owner."""
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_revoke=self._commit, on_lost=lambda *_: None)

    def _commit(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                self.failed_commits += 1

    def poll(self) -> list[int]:
        found = []
        for message in self._consumer.consume(500, POLL_MS / 1000):
            error = message.error()
            if error is None:
                found.append(int(message.value() or b""))
            else:
                assert error.retriable() or error.code() < 0, error
        return found

    def assignment(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> list[int]:
        self._consumer.close()
        return []


class FranzConsumer:
    """One of franz-go, in a process of its own: `program` is the compiled Go program of `tests/interop/clients/go`."""

    def __init__(self, program: Path, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        own = {"BOOTSTRAP": bootstrap, "GROUP": group, "TOPIC": topic, "PROTOCOL": protocol}
        self.process = subprocess.Popen(
            [str(program), "-test.run", "^TestMember$", "-test.timeout", "1000s"],
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._watch = watch_over(self.process.pid)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._owned: set[int] = set()
        self._reader = threading.Thread(target=self._take_lines, daemon=True)
        self._reader.start()

    def _take_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def poll(self) -> list[int]:
        assert self.process.poll() is None, "the program ended"
        found: list[int] = []
        with suppress(Empty):
            line = self._lines.get(timeout=POLL_MS / 1000)
            while True:
                found += self._taken(line)
                line = self._lines.get_nowait()
        return found

    def _taken(self, line: str) -> list[int]:
        what, _, rest = line.partition(" ")
        if what == "owned":
            self._owned = set(map(int, rest.split()))
        return [int(rest)] if what == "read" else []

    def assignment(self) -> set[int]:
        return self._owned

    def close(self) -> list[int]:
        """What was read since the last poll."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        self._watch.kill()
        self._watch.communicate()
        lines = [self._lines.get() for _ in range(self._lines.qsize())]
        assert code == 0, "".join(lines)
        return [number for line in lines for number in self._taken(line)]


class AnyConsumer(Protocol):
    """What a member is made of."""

    def poll(self) -> list[int]: ...

    def assignment(self) -> set[int]: ...

    def close(self) -> list[int]: ...


@dataclass
class Member:
    """A consumer that a thread polls until `leave`."""

    consumer: AnyConsumer
    read: list[int] = field(default_factory=list)
    owned: set[int] = field(default_factory=set)
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        try:
            while not self._ends.is_set():
                self.read += self.consumer.poll()
                self.owned = self.consumer.assignment()
            self.owned = set()
            self.read += self.consumer.close()
        except BaseException as error:  # noqa: BLE001 - told by `leave`
            self.failure = error

    def leave(self) -> None:
        """Commit and leave. Raises what polling or leaving raised."""
        self._ends.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the member does not end"
        if self.failure is not None:
            raise self.failure


class Group:
    """The members that read one topic. `make` gives a consumer of a protocol."""

    def __init__(self, name: str, partitions: int, make: Callable[[str], AnyConsumer]) -> None:
        self.name = name
        self.partitions = partitions
        self._make = make
        self.members: list[Member] = []
        self._gone: list[Member] = []

    def join(self, protocol: str) -> Member:
        member = Member(self._make(protocol))
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        self._gone.append(member)
        member.leave()

    def is_shared(self) -> bool:
        """Whether every partition has one owner, and no member has more than two partitions more than another."""
        for member in self.members:
            if member.failure is not None:
                raise member.failure
        counts = [len(member.owned) for member in self.members]
        owned = sorted(itertools.chain.from_iterable(member.owned for member in self.members))
        return owned == list(range(self.partitions)) and max(counts) - min(counts) <= 1

    def wait_until_shared(self) -> None:
        assert wait_until(self.is_shared, PATIENCE_S), [sorted(member.owned) for member in self.members]

    def read(self) -> Counter[int]:
        """How often each number was read."""
        return Counter(itertools.chain.from_iterable(member.read for member in [*self.members, *self._gone]))

    def wait_until_read(self, numbers: Iterable[int]) -> None:
        wanted = set(numbers)
        is_read = wait_until(lambda: wanted <= self.read().keys(), PATIENCE_S)
        missing = sorted(wanted - self.read().keys())
        assert is_read, f"{len(missing)} are missing, such as {missing[:5]}: {[sorted(m.owned) for m in self.members]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in list(self.members):
            try:
                self.leave(member)
            except BaseException:
                if kind is None:
                    raise


class Numbers:
    """A producer that writes 0, 1, 2, ... until its end; every one is acknowledged."""

    def __init__(self, bootstrap: str, topic: str, rate: int = 200) -> None:
        self.acknowledged: list[int] = []
        self._topic = topic
        self._pause_s = 1 / rate
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        for number in itertools.count():
            if self._ends.wait(self._pause_s):
                break
            self._producer.produce(self._topic, b"%d" % number, b"%d" % number, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join(PATIENCE_S + 10)

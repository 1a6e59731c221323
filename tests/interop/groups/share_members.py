"""Members of share groups by real clients, and what they were given and acknowledged.

An outcome is that of one partition's acknowledgements: None when the broker took them, else the name of the error.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.interop.clients.java_clients import JavaClients
from tests.interop.groups.members import Numbers
from tests.oracle.process import wait_until

ACCEPT, RELEASE, REJECT, RENEW = "ACCEPT", "RELEASE", "REJECT", "RENEW"
EXPLICIT, IMPLICIT = "explicit", "implicit"
PATIENCE_S: Final = 60.0
POLL_MS: Final = 200
COMMIT_MS: Final = 30_000

SURE_REFUSALS: Final = frozenset({"INVALID_RECORD_STATE", "INVALID_REQUEST", "INVALID_SHARE_SESSION_EPOCH"})
"""What the broker says of acknowledgements that changed nothing."""

Place = tuple[str, int, int]
"""Topic, partition, offset."""
Outcomes = dict[tuple[str, int], str | None]
"""Of the acknowledgements of each partition."""

_numbers = itertools.count()


class Delivered(NamedTuple):
    """A record as a member got it. `count` says the how manieth delivery it is."""

    topic: str
    partition: int
    offset: int
    value: str
    count: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset


class AnyShareConsumer(Protocol):
    """A share consumer that has subscribed."""

    def poll(self, timeout_ms: int = POLL_MS) -> list[Delivered]: ...

    def acknowledge(self, records: Iterable[Delivered], kind: str) -> None: ...

    def commit(self) -> Outcomes: ...

    def close(self) -> None: ...


class JavaShareConsumer:
    """One of `KafkaShareConsumer` in a JVM that runs ShareClients."""

    def __init__(
        self, jvm: JavaClients, bootstrap: str, group: str, topics: Sequence[str], mode: str, **settings: Any
    ) -> None:
        self._jvm = jvm
        self._name = f"share-{next(_numbers)}"
        config = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode, **settings}
        self.ask("share consumer", config=config)
        self.ask("subscribe", topics=list(topics))

    def ask(self, do: str, **rest: Any) -> Any:
        return self._jvm.ask(self._name, do, **rest)

    def poll(self, timeout_ms: int = POLL_MS) -> list[Delivered]:
        return [Delivered(*row) for row in self.ask("poll", timeout_ms=timeout_ms)]

    def acknowledge(self, records: Iterable[Delivered], kind: str) -> None:
        self.ask("acknowledge", records=[[*record.place, kind] for record in records])

    def commit(self) -> Outcomes:
        rows = self.ask("commit", timeout_ms=COMMIT_MS)
        return {(topic, partition): error_name(error) for topic, partition, error in rows}

    def outcomes(self) -> list[tuple[str, int, str | None]]:
        """Those that its callback was given since the last time, in order."""
        return [(topic, partition, error_name(error)) for topic, partition, error in self.ask("outcomes")]

    def close(self) -> None:
        self.ask("close")


def error_name(java_class: str | None) -> str | None:
    """InvalidRecordStateException is INVALID_RECORD_STATE."""
    if java_class is None:
        return None
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", java_class.removesuffix("Exception")).upper()


class LibrdkafkaShareConsumer:
    """One of confluent-kafka. It knows no RENEW."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], mode: str, **settings: Any) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode, "log_level": 0}
        self._consumer = ShareConsumer({**config, **settings})
        self._consumer.subscribe(list(topics))
        self.errors: list[str] = []
        """What polls gave in the place of records."""

    def poll(self, timeout_ms: int = POLL_MS) -> list[Delivered]:
        found = []
        for message in self._consumer.poll(timeout_ms / 1000):
            error = message.error()
            if error is not None:
                self.errors.append(error.name())
                continue
            place = str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)
            found.append(Delivered(*place, (message.value() or b"").decode(), message.delivery_count()))
        return found

    def acknowledge(self, records: Iterable[Delivered], kind: str) -> None:
        for record in records:
            self._consumer.acknowledge_offset(*record.place, AcknowledgeType[kind])

    def commit(self) -> Outcomes:
        told: dict[TopicPartition, KafkaException | None] = self._consumer.commit_sync(COMMIT_MS / 1000)
        return {
            (place.topic, place.partition): None if error is None else error.args[0].name()
            for place, error in told.items()
        }

    def close(self) -> None:
        self._consumer.close()


class ShareMember:
    """A consumer that a thread polls until `leave`: it accepts what it is given, and commits after each poll.

    `decide` may say another kind of acknowledgement for a record.
    """

    def __init__(self, consumer: AnyShareConsumer, decide: Callable[[Delivered], str] = lambda _: ACCEPT) -> None:
        self.delivered: list[Delivered] = []
        self.accepted: Counter[Place] = Counter()
        """What the broker said that it has accepted."""
        self.refused: defaultdict[Place, list[str]] = defaultdict(list)
        """The errors that acceptances had. A record may have been accepted in spite of one, where an answer was lost."""
        self.failure: BaseException | None = None
        self._consumer = consumer
        self._decide = decide
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._ends.is_set():
                self._take(self._consumer.poll())
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - told by `leave`
            self.failure = error

    def _take(self, records: list[Delivered]) -> None:
        if not records:
            return
        self.delivered += records
        kinds = {record: self._decide(record) for record in records}
        for kind in set(kinds.values()):
            self._consumer.acknowledge([record for record in records if kinds[record] == kind], kind)
        outcomes = self._consumer.commit()
        for record in (record for record, kind in kinds.items() if kind == ACCEPT):
            error = outcomes.get((record.topic, record.partition), "no outcome")
            if error is None:
                self.accepted[record.place] += 1
            else:
                self.refused[record.place].append(error)

    def leave(self) -> None:
        """Raises what polling or leaving raised."""
        self._ends.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the member does not end"
        if self.failure is not None:
            raise self.failure


class ShareGroup:
    """The members of one group that read one topic, and those that left. `make` gives a consumer."""

    def __init__(self, make: Callable[[], AnyShareConsumer]) -> None:
        self._make = make
        self.members: list[ShareMember] = []
        self._gone: list[ShareMember] = []

    def join(self, decide: Callable[[Delivered], str] = lambda _: ACCEPT) -> ShareMember:
        member = ShareMember(self._make(), decide)
        self.members.append(member)
        return member

    def leave(self, member: ShareMember) -> None:
        self.members.remove(member)
        self._gone.append(member)
        member.leave()

    @property
    def all(self) -> list[ShareMember]:
        return [*self.members, *self._gone]

    def delivered(self) -> list[Delivered]:
        return list(itertools.chain.from_iterable(member.delivered for member in self.all))

    def accepted(self) -> Counter[Place]:
        """How often each record's acceptance was confirmed."""
        return sum((member.accepted for member in self.all), Counter())

    def refused(self) -> dict[Place, list[str]]:
        """The errors of each record's acceptances."""
        found: defaultdict[Place, list[str]] = defaultdict(list)
        for member in self.all:
            for place, errors in list(member.refused.items()):
                found[place] += errors
        return found

    def wait_until_delivered(self, values: Iterable[int | str]) -> None:
        wanted = {str(value) for value in values}

        def missing() -> set[str]:
            for member in self.members:
                if member.failure is not None:
                    raise member.failure
            return wanted - {record.value for record in self.delivered()}

        assert wait_until(lambda: not missing(), PATIENCE_S), f"{len(missing())} are missing: {sorted(missing())[:5]}"

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


def has_gone_on(group: ShareGroup) -> Callable[[], bool]:
    """Whether records were accepted since this call."""
    before = group.accepted().total()
    return lambda: group.accepted().total() > before + 100


@dataclass(frozen=True)
class Reading:
    """Members read the numbers that are written to a topic meanwhile: one for each name of a client in `members`. `consumer_of`
    gives a consumer of the group by its client's name."""

    bootstrap: str
    topic: str
    partitions: int
    members: Sequence[str]
    consumer_of: Callable[[str], AnyShareConsumer]

    @contextmanager
    def checked(self) -> Iterator[ShareGroup]:
        """The body runs once every member has got records.

        At the end every number was delivered, what was accepted is not left, and what was refused for sure, and never accepted,
        is left."""
        clients = itertools.cycle(self.members)
        with ShareGroup(lambda: self.consumer_of(next(clients))) as group:
            with Numbers(self.bootstrap, self.topic) as numbers:
                for _ in self.members:
                    group.join()
                assert wait_until(lambda: all(member.delivered for member in group.members), PATIENCE_S)
                yield group
            group.wait_until_delivered(numbers.acknowledged)
        delivered, refused, accepted = group.delivered(), group.refused(), group.accepted()
        left = self._left()
        assert not left & {record.value for record in delivered if record.place in accepted}
        lost = {place for place in refused.keys() - accepted.keys() if set(refused[place]) <= SURE_REFUSALS}
        assert {record.value for record in delivered if record.place in lost} <= left

    def _left(self) -> set[str]:
        """What is left to read when every member has gone."""
        ends = {f"end-{partition}" for partition in range(self.partitions)}
        for partition in range(self.partitions):
            write(self.bootstrap, self.topic, [f"end-{partition}"], partition)
        consumer = self.consumer_of("librdkafka")
        found: set[str] = set()
        while not ends <= found:
            found.update(values_of(take(consumer)))
        consumer.close()
        return found - ends


def set_group(bootstrap: str, group: str, **configs: object) -> None:
    """Settings of the group: `isolation_level="read_committed"` is `share.isolation.level`."""
    entries = [
        ConfigEntry(f"share.{name.replace('_', '.')}", str(value), incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def create_topic(bootstrap: str, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)
    return topic


def write(bootstrap: str, topic: str, values: Iterable[int | str], partition: int = 0) -> None:
    """One record at a time, so that each is a batch of its own or shares one with its neighbours as it happens."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, str(value), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def take(consumer: AnyShareConsumer, count: int = 1, kind: str = ACCEPT) -> list[Delivered]:
    """So many records at least, each acknowledged before the next poll."""
    taken: list[Delivered] = []

    def is_enough() -> bool:
        records = consumer.poll()
        consumer.acknowledge(records, kind)
        taken.extend(records)
        return len(taken) >= count

    assert wait_until(is_enough, PATIENCE_S), f"{len(taken)} of {count} records came"
    return taken


def polled(consumer: AnyShareConsumer) -> list[Delivered]:
    """What the first poll gives that gives something."""
    found: list[Delivered] = []

    def is_something() -> bool:
        found.extend(consumer.poll())
        return bool(found)

    assert wait_until(is_something, PATIENCE_S), "nothing came"
    return found


def values_of(records: Iterable[Delivered]) -> list[str]:
    return [record.value for record in records]

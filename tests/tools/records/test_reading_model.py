"""`consume` and `find` beside a model: topics of chance, and what each command has to print of them.

The model knows every record with its place; a command's options choose among them. Seeds are few here, and all the same at
every run; SEEDS takes more of them by hand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka import Message, Producer

from barnabas.embedded import EmbeddedBroker
from tests.oracle.process import wait_until
from tests.tools.test_commands import Tool, broker, ok, tool

__all__ = ["broker", "tool"]

SEEDS = range(3)
QUESTIONS = 14
PATIENCE_S = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMES_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Written:
    """A record of the model. `is_committed` is False for one of a transaction that was aborted."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...]
    is_committed: bool

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass
class Topic:
    name: str
    partitions: int
    records: list[Written]
    starts: dict[int, int]
    ends: dict[int, int]
    """With markers of transactions, which have offsets and are no records."""

    def there(self, level: str) -> list[Written]:
        return [each for each in self.records if each.offset >= self.starts[each.partition]
                and (each.is_committed or level == "read_uncommitted")]  # fmt: skip


def made(tool: Tool, broker: EmbeddedBroker, name: str, chance: random.Random) -> Topic:
    """A topic of batches in all codecs, of which some are transactions, and whose oldest records may be deleted."""
    partitions = chance.choice((1, 2, 5))
    ok(tool("topics", "create", name, "--partitions", str(partitions)))
    topic = Topic(name, partitions, [], dict.fromkeys(range(partitions), 0), {})
    for batch in range(chance.randint(2, 8)):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": chance.choice(CODECS),
            "linger.ms": 5,
        }
        is_transaction, is_committed = chance.random() < 0.4, chance.random() < 0.5
        if is_transaction:
            settings["transactional.id"] = f"{name}-{batch}"
        producer = Producer(settings)
        if is_transaction:
            producer.init_transactions()
            producer.begin_transaction()
        _write(producer, topic, chance, is_committed=is_committed or not is_transaction)
        if is_transaction:
            producer.commit_transaction() if is_committed else producer.abort_transaction()
    assert wait_until(lambda: _ends(tool, name, "read_committed") == _ends(tool, name, "read_uncommitted"), PATIENCE_S)
    topic.ends = dict(enumerate(_ends(tool, name, "read_uncommitted")))
    if chance.random() < 0.5:
        partition = chance.randrange(partitions)
        topic.starts[partition] = chance.randint(0, _next(topic, partition))
        ok(tool("records", "delete", name, "--partition", str(partition), "--before-offset",
                str(topic.starts[partition]), "--execute"))  # fmt: skip
    return topic


def _ends(tool: Tool, name: str, level: str) -> list[int]:
    return [row["end_offset"] for row in ok(tool("topics", "offsets", name, "--isolation-level", level, "--json")).json]


def _next(topic: Topic, partition: int) -> int:
    return max((each.offset + 1 for each in topic.records if each.partition == partition), default=0)


def _write(producer: Producer, topic: Topic, chance: random.Random, *, is_committed: bool) -> None:
    def delivered(record: tuple[int, str | None, str | None, tuple[tuple[str, str], ...]]) -> Callable[..., None]:
        def on_delivery(error: object, message: Message) -> None:
            assert error is None
            topic.records.append(Written(message.partition(), message.offset(), *record, is_committed))  # type: ignore[arg-type]

        return on_delivery

    for _ in range(chance.randint(1, 40)):
        key = chance.choice((None, *"abcdef"))
        value = chance.choice((None, "", json.dumps({"n": chance.randrange(5), "s": {"t": [chance.choice("xyz")]}}),
                               "v" * chance.choice((1, 30, 3000)), "é☃ text"))  # fmt: skip
        headers = tuple((chance.choice("hi"), chance.choice("12")) for _ in range(chance.choice((0, 0, 1, 2))))
        timestamp_ms = TIMES_MS + chance.randrange(1000)
        producer.produce(
            topic.name, None if value is None else value.encode(), None if key is None else key.encode(),
            chance.randrange(topic.partitions), timestamp=timestamp_ms, headers=[(name, text) for name, text in headers],
            on_delivery=delivered((timestamp_ms, key, value, headers)),
        )  # fmt: skip
    producer.flush()


def places(text: str) -> list[tuple[int, int]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return [(row["partition"], row["offset"]) for row in rows]


def filters(chance: random.Random) -> tuple[list[str], Callable[[Written], bool]]:
    """Options for what is wanted, and the same for the model."""
    options: list[str] = []
    tests: list[Callable[[Written], bool]] = []
    if chance.random() < 0.5:
        key = chance.choice("abcg")
        options += ["--key", key]
        tests.append(lambda each: each.key == key)
    if chance.random() < 0.3:
        options += ["--header", "h=1"]
        tests.append(lambda each: ("h", "1") in each.headers)
    if not options or chance.random() < 0.3:
        part = chance.choice(("v", "☃", '"n"', "nothing like this"))
        options += ["--value-contains", part]
        tests.append(lambda each: part in json_text(each.value))
    return options, lambda each: all(test(each) for test in tests)


def json_text(value: str | None) -> str:
    return value or ""


def first_since(topic: Topic, partition: int, since_ms: int) -> int | None:
    """What ListOffsets answers: it knows uncommitted records, too, and markers, which have the time of the test."""
    records = {each.offset: each.timestamp_ms for each in topic.records if each.partition == partition}
    places = range(topic.starts[partition], topic.ends[partition])
    return next((offset for offset in places if records.get(offset, since_ms) >= since_ms), None)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_printed_is_what_the_model_has(tool: Tool, broker: EmbeddedBroker, seed: int) -> None:
    chance = random.Random(seed)
    topic = made(tool, broker, f"model-{seed}", chance)
    for number in range(QUESTIONS):
        level = chance.choice(("read_committed", "read_uncommitted"))
        question = chance.choice((found_by_time, found, found_by_json, consumed, last))
        options, expected = question(topic, chance, level)
        run = ok(tool(*options, "--isolation-level", level, "--json"))
        what = f"seed {seed}, question {number}: {' '.join(options)} {level}\n{run.err}"
        printed = places(run.out)
        assert sorted(printed) == sorted(each.place for each in expected), what
        for partition in range(topic.partitions):
            own = [place for place in printed if place[0] == partition]
            assert own == sorted(own), what


Answer = tuple[list[str], list[Written]]


def found(topic: Topic, chance: random.Random, level: str) -> Answer:
    options, wanted = filters(chance)
    start, end = chance.choice((None, chance.randrange(60))), chance.choice((None, chance.randrange(120)))
    if start is not None:
        options += ["--from-offset", str(start)]
    if end is not None:
        options += ["--until-offset", str(end)]
    return ["find", topic.name, *options], [
        each for each in topic.there(level)
        if wanted(each) and each.offset >= (start or 0) and (end is None or each.offset < end)
    ]  # fmt: skip


def found_by_time(topic: Topic, chance: random.Random, level: str) -> Answer:
    options, wanted = filters(chance)
    since, until = TIMES_MS + chance.randrange(1000), TIMES_MS + chance.randrange(1000)
    ends = {index: first_since(topic, index, until) for index in range(topic.partitions)}

    def is_before(each: Written) -> bool:
        end = ends[each.partition]
        return each.timestamp_ms < until and (end is None or each.offset < end)

    return ["find", topic.name, *options, "--from-time", str(since), "--until-time", str(until)], [
        each for each in topic.there(level) if wanted(each) and each.timestamp_ms >= since and is_before(each)
    ]


def found_by_json(topic: Topic, chance: random.Random, level: str) -> Answer:
    n, t = str(chance.randrange(5)), chance.choice("xyz")

    def wanted(each: Written) -> bool:
        return f'"n": {n},' in json_text(each.value) and f'["{t}"]' in json_text(each.value)

    options = ["--json-path", f"n={n}", "--json-path", f"$.s.t[0]={t}"]
    return ["find", topic.name, *options], [each for each in topic.there(level) if wanted(each)]


def consumed(topic: Topic, chance: random.Random, level: str) -> Answer:
    options, wanted = filters(chance)
    partition, start = chance.randrange(topic.partitions), chance.randrange(50)
    options += ["--partition", str(partition), "--offset", str(start), "--until-end"]
    return ["consume", topic.name, *options], [
        each for each in topic.there(level)
        if wanted(each) and each.partition == partition and each.offset >= start
    ]  # fmt: skip


def last(topic: Topic, chance: random.Random, level: str) -> Answer:
    count = chance.choice((1, 2, 7, 500))
    there = topic.there(level)
    return ["consume", topic.name, "--last", str(count)], [
        each
        for index in range(topic.partitions)
        for each in sorted((each for each in there if each.partition == index), key=lambda each: each.offset)[-count:]
    ]

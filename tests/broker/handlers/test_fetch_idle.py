"""Fetch sessions look only at what was touched, and answer as if they looked at everything."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from broker.handlers.fetch import ParkedFetch, fetch
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from replication.doors import PartitionHost
from replication.fetch_read import inspect
from replication.fetch_sessions import FetchItem, FetchSession
from replication.partition import Partition, WakeUps
from runtime.tasks import TaskScope
from storage.log import PartitionLog
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker
from tests.replication.replica_world import LAG_MS, ME, Replica, Surroundings
from tests.storage.logs import config, values_of, world

VERSION = 12
WAIT_MS = 500
FOLLOWER, OTHER = 2, 3
PARTITIONS = 3


class Several:
    """A broker with the partitions t-0, t-1, ... Everything about it is told by `state`."""

    def __init__(self, replicas: list[Replica], around: Surroundings, tasks: TaskScope) -> None:
        self.replicas = replicas
        self.around = around
        self.broker = ReplicaBroker(replicas[0], tasks)
        cast(Any, self.broker.services).partitions = self

    def find(self, topic: str, index: int) -> Partition | None:
        return self.replicas[index].partition if topic == "t" and index < len(self.replicas) else None

    def find_by_id(self, _topic_id: bytes, _index: int) -> Partition | None:
        return None

    def session(self, session_id: int) -> FetchSession:
        return self.broker.services.fetch_sessions._sessions[session_id]

    def touch_everything(self) -> None:
        for session in self.broker.services.fetch_sessions._sessions.values():
            for item in session.items.values():
                item.touch()

    def wait(self, duration_ms: int) -> None:
        self.broker.wait(duration_ms)
        self.around.now_ms = self.broker.clock.now_ms

    def state(self) -> list[Any]:
        found: list[Any] = [[change.isr for change in self.around.wishes]]
        for one in self.replicas:
            partition, leader = one.partition, one.partition.leader
            found.append((partition.high_watermark, partition.log.log_start_offset, partition.log.log_end_offset))
            if leader is not None:
                found.append(
                    [(each.leo, each.caught_up_ms, each.log_start_offset) for each in leader.followers.values()]
                )
        return found


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@asynccontextmanager
async def several(folder: Path, count: int = PARTITIONS) -> AsyncIterator[Several]:
    async with world(_made(folder)) as around_logs, TaskScope("requests") as tasks:
        around = Surroundings()
        host = PartitionHost(ME, WakeUps(around.soon.append), around.doors())
        replicas = []
        for index in range(count):
            log = await PartitionLog.open("t", index, f"{folder}/t-{index}", config(), around_logs.environment)
            replicas.append(Replica(Partition(log, host), around))
        made = Several(replicas, around, tasks)
        around.now_ms = made.broker.clock.now_ms
        yield made
        for one in replicas:
            await one.partition.log.close()


class Client:
    """Reads t by a session; says what changed, and now and then what did not. Keeps its answers."""

    def __init__(self, replica: int = -1, isolation: int = 0, max_bytes: int = 1 << 20) -> None:
        self.replica, self.isolation, self.max_bytes = replica, isolation, max_bytes
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.named = dict.fromkeys(range(PARTITIONS), -1)
        self.epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.session_id = self.epoch = 0
        self.answers: list[Any] = []

    def request(self, wait_ms: int, also: int | None = None) -> FetchRequest:
        rows = [
            FetchPartition(
                partition=index,
                current_leader_epoch=self.epochs[index],
                fetch_offset=offset,
                partition_max_bytes=1 << 20,
                log_start_offset=0 if self.replica >= 0 else -1,
            )
            for index, offset in self.offsets.items()
            if self.epoch <= 0 or offset != self.named[index] or index == also
        ]
        self.named = dict(self.offsets)
        return FetchRequest(
            replica_id=self.replica,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic="t", partitions=rows)] if rows else [],
        )

    def take(self, response: FetchResponse, ends: list[int]) -> None:
        if response.error_code:
            self.session_id = self.epoch = 0
            return
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        for topic in response.responses:
            for row in topic.partitions:
                self.answers.append(
                    (
                        row.partition_index,
                        row.error_code,
                        row.high_watermark,
                        row.log_start_offset,
                        bytes(row.records or b""),
                    )
                )
                if row.records:
                    self.offsets[row.partition_index] = values_of(bytes(row.records))[-1][0] + 1
                elif row.error_code == 1:  # out of range
                    self.offsets[row.partition_index] = ends[row.partition_index]
                elif row.error_code:
                    self.epochs[row.partition_index] = -1
                    self.named[row.partition_index] = -1
        self.answers.append(None)


async def read(made: Several, client: Client, *, wait_ms: int = 0, also: int | None = None) -> None:
    answer = made.broker.start(fetch, client.request(wait_ms, also), VERSION)
    response = await answer.now()
    if response is None:
        made.wait(wait_ms)
        response = await answer.now()
    client.take(response, [one.partition.log.log_end_offset for one in made.replicas])


# --- what is looked at ---


class Looks:
    """Which partitions were inspected since they were last asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[int] = []

        def noted(item: FetchItem, *more: Any) -> Any:
            self._seen.append(item.partition)
            return inspect(item, *more)

        monkeypatch.setattr(sys.modules[ParkedFetch.__module__], "inspect", noted)

    def taken(self) -> list[int]:
        seen, self._seen = self._seen, []
        return seen


def test_an_idle_session_looks_at_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1, 2))
            for client in (Client(FOLLOWER), Client(), Client(isolation=1)):
                await read(made, client, wait_ms=WAIT_MS)
                assert looks.taken() == [0, 1, 2]
                for wait_ms in (WAIT_MS, 0):
                    await read(made, client, wait_ms=wait_ms)
                    assert looks.taken() == []

    asyncio.run(run())


def test_what_has_changed_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1, 2))
            consumer = Client()
            await read(made, consumer)
            looks.taken()
            await made.replicas[1].append("a")
            await read(made, consumer)
            assert looks.taken() == [], "nothing is committed yet"
            made.replicas[1].fetched(1)
            waiting = made.broker.start(fetch, consumer.request(WAIT_MS), VERSION)
            assert await waiting.now() is not None
            assert looks.taken() == [1]

    asyncio.run(run())


def test_a_partition_that_answers_an_error_is_looked_at_until_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas[:2]:
                one.lead(isr=(1,), replicas=(1,))
            consumer = Client()
            for asked in ([0, 1, 2], [2], [2]):
                consumer.named[2] = consumer.offsets[2]
                await read(made, consumer)
                assert looks.taken() == asked
            made.replicas[2].lead(isr=(1,), replicas=(1,))
            await read(made, consumer)
            assert looks.taken() == [2]
            await read(made, consumer)
            assert looks.taken() == []

    asyncio.run(run())


def test_a_follower_outside_the_isr_is_looked_at_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1, 2))
            follower = Client(FOLLOWER)
            await read(made, follower)
            made.replicas[1].lead(isr=(1,), partition_epoch=1)
            made.around.alive = {1, 3}
            for _ in range(3):
                looks.taken()
                await read(made, follower)
                assert looks.taken() == [1]
            assert made.around.wishes == []
            made.around.alive = {1, 2, 3}
            await read(made, follower)
            (change,) = made.around.wishes
            assert change.added == FOLLOWER
            made.replicas[1].answer(change)
            await read(made, follower)
            looks.taken()
            await read(made, follower)
            assert looks.taken() == []

    asyncio.run(run())


def test_a_fetch_that_waits_for_more_than_there_is_looks_at_what_comes(tmp_path: Path) -> None:
    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1,), replicas=(1,))
            consumer = Client()
            await read(made, consumer)
            await made.replicas[0].append("a")
            await made.replicas[1].append("b")
            request = consumer.request(WAIT_MS)
            request.min_bytes = 200
            waiting = made.broker.start(fetch, request, VERSION)
            assert await waiting.now() is None
            await made.replicas[1].append("c" * 100)
            response = await waiting.now()
            assert [row.partition_index for row in response.responses[0].partitions] == [0, 1]

    asyncio.run(run())


def test_a_follower_that_cannot_go_on_is_not_taken_for_one_that_rests(tmp_path: Path) -> None:
    """Its session lives on, for the sake of other partitions."""

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1, 2))
            follower = Client(FOLLOWER)
            await read(made, follower)
            since_ms = made.around.now_ms
            follower.offsets[1] = 99  # out of range
            forgets = follower.request(0)
            forgets.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[2])]
            follower.take(await made.broker.start(fetch, forgets, VERSION).now(), [0, 99, 0])
            made.wait(WAIT_MS)
            await read(made, follower)
            resting, mad, forgotten = (one.partition.leader for one in made.replicas)
            assert resting is not None
            assert resting.followers[FOLLOWER].caught_up_ms == made.around.now_ms >= since_ms + WAIT_MS
            for leader in (mad, forgotten):
                assert leader is not None
                assert leader.followers[FOLLOWER].caught_up_ms == since_ms
            assert watchers_count(made) == 1

    asyncio.run(run())


# --- sessions and the lists they stand in ---


def watchers_count(made: Several) -> int:
    return sum(len(watchers) for one in made.replicas for watchers in one.partition.watcher_lists())


def test_a_session_that_ends_stands_in_no_list(tmp_path: Path) -> None:
    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1, 2))
            follower, consumer, passer_by = Client(FOLLOWER), Client(), Client()
            for client in (follower, consumer):
                await read(made, client)
            assert watchers_count(made) == 2 * PARTITIONS
            passer_by.epoch = -1
            await read(made, passer_by, wait_ms=WAIT_MS)
            assert watchers_count(made) == 2 * PARTITIONS
            consumer.epoch = 0  # begins again
            await read(made, consumer)
            assert watchers_count(made) == 2 * PARTITIONS
            last = consumer.request(0)
            last.session_epoch = -1
            await made.broker.start(fetch, last, VERSION).now()
            assert watchers_count(made) == PARTITIONS
            session = made.session(follower.session_id)
            parked = made.broker.start(fetch, follower.request(WAIT_MS), VERSION)
            assert await parked.now() is None
            made.broker.services.fetch_sessions._drop(follower.session_id)
            assert watchers_count(made) == PARTITIONS, "somebody still waits"
            made.wait(WAIT_MS)
            assert await parked.now() is not None
            assert watchers_count(made) == 0
            for one in made.replicas:
                assert one.partition.leader is not None
                assert not one.partition.leader.followers[FOLLOWER].rests_on(session)

    asyncio.run(run())


def test_an_abandoned_fetch_is_as_if_it_had_never_come(tmp_path: Path) -> None:
    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1,), replicas=(1,))
            consumer = Client()
            await read(made, consumer)
            abandoned = made.broker.services.fetch_sessions
            parked = fetch(consumer.request(WAIT_MS), made.broker.context(VERSION))
            parked.abandon()  # type: ignore[union-attr]
            consumer.epoch += 1
            assert len(abandoned) == 1
            await made.replicas[0].append("a")
            await read(made, consumer)
            assert consumer.answers[-2][:3] == (0, 0, 1)

    asyncio.run(run())


def test_a_fetch_that_another_has_overtaken_takes_nothing_from_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1,), replicas=(1,))
            consumer = Client()
            await read(made, consumer)
            old = made.broker.start(fetch, consumer.request(WAIT_MS), VERSION)
            consumer.epoch += 1
            new = made.broker.start(fetch, consumer.request(WAIT_MS * 2), VERSION)
            made.wait(WAIT_MS)
            assert (await old.now()).error_code == 71  # INVALID_FETCH_SESSION_EPOCH
            assert await new.now() is None
            await made.replicas[1].append("a")
            response = await new.now()
            assert [row.partition_index for row in response.responses[0].partitions] == [1]

    asyncio.run(run())


def test_fetches_leave_no_cycles_behind(tmp_path: Path) -> None:
    """They would keep whole requests in memory until the collector comes."""

    async def run() -> None:
        async with several(tmp_path / "broker") as made:
            for one in made.replicas:
                one.lead(isr=(1,), replicas=(1,))
            in_session, alone = Client(), Client()
            await read(made, in_session)
            gc.collect()
            gc.disable()
            try:
                for client in (in_session, alone):
                    for wait_ms in (0, WAIT_MS):
                        alone.epoch = -1
                        await read(made, client, wait_ms=wait_ms)
                    alone.epoch = -1
                    parked = fetch(client.request(WAIT_MS), made.broker.context(VERSION))
                    parked.abandon()  # type: ignore[union-attr]
                    del parked
                    client.epoch += 1
                in_session.epoch = -1
                await read(made, in_session)
                gc.set_debug(gc.DEBUG_SAVEALL)
                gc.collect()
                left = [each for each in gc.garbage if isinstance(each, FetchSession | FetchItem | ParkedFetch)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
            assert left == []

    asyncio.run(run())


# --- the same answers ---


class History:
    """What happens to a broker by `seed`, and what is told of it."""

    def __init__(self, made: Several, seed: int) -> None:
        self.made = made
        self.chance = random.Random(seed)
        self.clients = [Client(FOLLOWER), Client(), Client(isolation=1), Client(max_bytes=100)]
        self.parked: dict[Client, Answer] = {}
        self.partition_epochs = [0] * PARTITIONS
        self.epochs = [0] * PARTITIONS

    async def play(self, *, looks_at_everything: bool) -> list[Any]:
        told: list[Any] = []
        for one in self.made.replicas:
            one.lead(isr=(1, 2, 3))
        for _ in range(120):
            step, index = self.chance.choice(STEPS), self.chance.randrange(PARTITIONS)
            if looks_at_everything:
                self.made.touch_everything()
            await self.step(step, index, self.made.replicas[index])
            self.made.broker.turn()
            for client in list(self.parked):
                await self.hear(client)
            told.append((step, index, self.made.state(), [list(client.answers) for client in self.clients]))
        return told

    async def hear(self, client: Client) -> None:
        response = await self.parked[client].now()
        if response is not None:
            del self.parked[client]
            client.take(response, [one.partition.log.log_end_offset for one in self.made.replicas])

    async def step(self, step: str, index: int, one: Replica) -> None:
        number, partition, made = self.chance.random(), one.partition, self.made
        match step:
            case "append" if partition.is_leader:
                await one.append("a", "b" if number > 0.5 else "c" * 200)
            case "read":
                await self.read(index, number)
            case "abandon" if self.parked and number < 0.5:
                client = next(iter(self.parked))
                self.parked.pop(client).abandon()
                client.epoch += client.epoch > 0
            case "follow" if partition.leader and OTHER in partition.leader.followers:
                one.fetched(partition.log.log_end_offset, replica=OTHER)
            case "state" if partition.is_leader:
                isr = [each for each in (1, 2, 3) if each == ME or self.chance.random() < 0.7]
                one.lead(isr=isr, epoch=self.epochs[index], partition_epoch=self.next_partition_epoch(index))
            case "epoch":
                self.new_epoch(index, one, leads=number < 0.8)
            case "stop" if number < 0.1:
                partition.stop()
            case "delete" if partition.is_leader:
                partition.delete_records(int(number * partition.high_watermark))
            case "retention":
                partition.log.raise_log_start_offset(int(number * partition.high_watermark))
            case "tick":
                partition.on_tick(made.around.now_ms)
            case "answer" if made.around.wishes and partition.wants(made.around.wishes[-1]):
                one.answer(made.around.wishes[-1], partition_epoch=self.next_partition_epoch(index))
            case "time":
                made.wait(int(number * LAG_MS))
            case "broker":
                made.around.alive ^= {FOLLOWER}
                partition.on_brokers_gone({FOLLOWER})

    async def read(self, index: int, number: float) -> None:
        client = self.clients[int(number * 7) % len(self.clients)]
        if client in self.parked:
            return
        if client.replica >= 0 and number > 0.97:
            client.offsets[index] += 1_000  # it has gone mad
        wait_ms = self.chance.choice([0, WAIT_MS])
        request = client.request(wait_ms, index if self.chance.random() < 0.2 else None)
        self.parked[client] = self.made.broker.start(fetch, request, VERSION)

    def next_partition_epoch(self, index: int) -> int:
        self.partition_epochs[index] += 1
        return self.partition_epochs[index]

    def new_epoch(self, index: int, one: Replica, *, leads: bool) -> None:
        self.epochs[index] += 1
        epoch, partition_epoch = self.epochs[index], self.next_partition_epoch(index)
        if leads:
            one.lead(isr=(1, 2, 3), epoch=epoch, partition_epoch=partition_epoch)
        else:
            one.follow(epoch=epoch, partition_epoch=partition_epoch)
        for client in self.clients:
            client.epochs[index] = -1


STEPS = ("append", "append", "append", "follow", "follow", "follow", "time", "time", "state", "epoch", "stop", "delete")
STEPS += ("retention", "retention", "tick", "answer", "answer", "broker", "abandon", *["read"] * 12)


@pytest.mark.parametrize("seed", range(40))
def test_a_session_answers_and_knows_what_one_does_that_looks_at_everything(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        async with several(tmp_path / "touched") as made:
            found = await History(made, seed).play(looks_at_everything=False)
        async with several(tmp_path / "everything") as made:
            expected = await History(made, seed).play(looks_at_everything=True)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == theirs

    asyncio.run(run())

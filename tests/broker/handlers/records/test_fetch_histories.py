"""Fetch sessions, which look only at what was touched, answer in random histories as if they looked at everything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch
from storage.log.removal.segment_retention import raise_log_start_offset
from tests.broker.handlers.records.session_world import FOLLOWER, PARTITIONS, VERSION, WAIT_MS, Client, Several, several
from tests.broker.handlers.replica_broker import Answer
from tests.replication.replica_world import LAG_MS, ME, Replica

OTHER = 3  # another follower, without a session


STEPS: tuple[str, ...] = (
    "append",
    "append",
    "append",
    "follow",
    "follow",
    "follow",
    "time",
    "time",
    "state",
    "epoch",
    "stop",
    "delete",
)
STEPS += ("retention", "retention", "tick", "answer", "answer", "broker", "abandon", *["read"] * 12)


class History:
    """What happens to a broker by `seed`, and what is told of it."""

    steps: tuple[str, ...] = STEPS

    def __init__(self, made: Several, seed: int) -> None:
        self.made = made
        self.chance = random.Random(seed)
        self.clients = [Client(FOLLOWER), Client(), Client(isolation=1), Client(max_bytes=100)]
        self.parked: dict[Client, Answer] = {}
        self.partition_epochs = [0] * PARTITIONS
        self.epochs = [0] * PARTITIONS

    async def play(self, *, looks_at_everything: bool, steps_count: int = 120) -> list[Any]:
        told: list[Any] = []
        for one in self.made.replicas:
            one.lead(isr=(1, 2, 3))
        for _ in range(steps_count):
            step, index = self.chance.choice(self.steps), self.chance.randrange(PARTITIONS)
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
                raise_log_start_offset(partition.log, int(number * partition.high_watermark))
            case "tick":
                partition.on_tick(made.around.now_ms)
            case "answer" if made.around.wishes and partition.wants(made.around.wishes[-1]):
                one.answer(made.around.wishes[-1], partition_epoch=self.next_partition_epoch(index))
            case "time":
                made.wait(int(number * LAG_MS))
            case "broker":
                made.around.alive ^= {FOLLOWER}
                partition.on_brokers_lost({FOLLOWER})

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


@pytest.mark.parametrize("seed", range(40))
async def test_a_session_answers_and_knows_what_one_does_that_looks_at_everything(tmp_path: Path, seed: int) -> None:
    async with several(tmp_path / "touched") as made:
        found = await History(made, seed).play(looks_at_everything=False)
    async with several(tmp_path / "everything") as made:
        expected = await History(made, seed).play(looks_at_everything=True)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == theirs

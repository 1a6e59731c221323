"""Transactions with aiokafka. It sends no generation with the offsets of a transaction: a group of several is not safe."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import aiokafka
import aiokafka.errors

from tests.interop.transactions.clients.interface import (
    MAX_POLL_INTERVAL_MS,
    PATIENCE_S,
    POLL_S,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Client,
    FencedError,
    Member,
    Offsets,
    Producer,
    Record,
)

T = TypeVar("T")


class _Loop:
    """An event loop in a thread, for a library that has no other calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, PATIENCE_S), self._loop).result()
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise FencedError(repr(error)) from error

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class AiokafkaProducer(Producer):
    def __init__(self, loop: _Loop, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = loop
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
        }

    def init(self) -> None:
        self._loop.run(self._init())

    async def _init(self) -> None:
        self._producer = aiokafka.AIOKafkaProducer(**self._settings)
        await self._producer.start()

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, *values: str) -> None:
        async def send() -> None:
            for future in [await self._producer.send(topic, one.encode(), partition=partition) for one in values]:
                await future

        self._loop.run(send())

    def send_offsets(self, offsets: Offsets, member: Member) -> None:
        assert isinstance(member, AiokafkaMember)
        places = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.run(self._producer.send_offsets_to_transaction(places, member.group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class AiokafkaMember(Member):
    def __init__(self, loop: _Loop, bootstrap: str, group: str, topic: str, max_poll_interval_ms: int) -> None:
        self.group = group
        self._loop = loop
        self._loop.run(self._start(bootstrap, topic, max_poll_interval_ms))

    async def _start(self, bootstrap: str, topic: str, max_poll_interval_ms: int) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            heartbeat_interval_ms=300,
            session_timeout_ms=min(SESSION_TIMEOUT_MS, max_poll_interval_ms),
            max_poll_interval_ms=max_poll_interval_ms,
        )
        await self._consumer.start()

    def poll(self) -> list[Record]:
        batches = self._loop.run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=20)).values()
        return [Record(one.partition, one.offset, one.value.decode()) for batch in batches for one in batch]

    def rewind(self) -> None:
        self._loop.run(self._rewind())

    async def _rewind(self) -> None:
        for place in self._consumer.assignment():
            offset = await self._consumer.committed(place)
            if offset is None:
                await self._consumer.seek_to_beginning(place)
            else:
                self._consumer.seek(place, offset)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaClient(Client):
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = _Loop()

    def producer(self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Producer:
        return AiokafkaProducer(self._loop, self._bootstrap, transactional_id, timeout_ms)

    def member(self, group: str, topic: str, max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS) -> Member:
        return AiokafkaMember(self._loop, self._bootstrap, group, topic, max_poll_interval_ms)

    def read(self, topic: str, isolation: str) -> list[list[str]]:
        return self._loop.run(self._read(topic, isolation))

    async def _read(self, topic: str, isolation: str) -> list[list[str]]:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=self._bootstrap, isolation_level=isolation)
        async with consumer:
            places = sorted(consumer.assignment())
            ends = await consumer.end_offsets(places)
            await consumer.seek_to_beginning(*places)
            values: dict[Any, list[str]] = {place: [] for place in places}
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, batch in (await consumer.getmany(timeout_ms=200)).items():
                    values[place] += [one.value.decode() for one in batch if one.offset < ends[place]]
            return [values[place] for place in places]

    def close(self) -> None:
        self._loop.close()

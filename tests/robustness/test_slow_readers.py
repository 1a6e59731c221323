"""Consumers that ask for much and read nothing, as many as the broker has descriptors for."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from protocol.messages.produce import ProduceResponse
from tests.robustness.process import BrokerProcess, MiB, eventually
from tests.robustness.wire import FETCH_V, PRODUCE_V, Wire, batch_of, create_topic, fetch_of, produce_of

OPEN_FILES = 256  # 32 of them are for files
READERS = 150
BATCH_BYTES = 900_000
BATCHES = 12
MOST_BYTES = 150 * MiB


def test_readers_that_do_not_read_leave_descriptors_for_files(tmp_path: Path) -> None:
    """A log directory whose files cannot be opened would be offline. Each of them gets what it was promised in the end."""
    batch = batch_of(os.urandom(BATCH_BYTES))
    settings: dict[str, object] = {"log.segment.bytes": 8 * BATCH_BYTES, "log.retention.ms": -1}
    broker = BrokerProcess(tmp_path, settings, open_files=OPEN_FILES)
    with broker, contextlib.ExitStack() as stack:
        create_topic(broker, "old")
        create_topic(broker, "new")
        producer = stack.enter_context(Wire(broker))
        for _ in range(BATCHES):
            produce(producer, "old", batch)
        idle_count = broker.descriptors()
        readers = [stack.enter_context(Wire(broker, receive_buffer_bytes=4096)) for _ in range(READERS)]
        for reader in readers:
            reader.ask(fetch_of("new"), FETCH_V)  # it is accepted
        for reader in readers:
            reader.send(fetch_of("old", max_bytes=6 * len(batch)), FETCH_V)
        most = OPEN_FILES - OPEN_FILES // 8
        assert idle_count + READERS < most, "each can have one descriptor, but not two"
        eventually(lambda: broker.descriptors() >= most - 1)
        for _ in range(3 * BATCHES):  # which begins new segments
            produce(producer, "new", batch)
        assert broker.descriptors() < OPEN_FILES
        assert broker.peak_rss_bytes() < MOST_BYTES, f"{broker.peak_rss_bytes() / MiB:.0f} MiB"
        answers = [reader.receive_frame() for reader in (*readers[:3], *readers[-3:])]
        assert all(answer.count(batch[61:]) == 6 for answer in answers)
    assert "level=error" not in broker.log and "offline" not in broker.log


def produce(wire: Wire, topic: str, batch: bytes) -> None:
    answer = wire.ask(produce_of(topic, batch), PRODUCE_V)
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0

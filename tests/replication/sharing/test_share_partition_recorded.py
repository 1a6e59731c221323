"""Scripts of acquisitions, acknowledgements, failed writes and ended locks: our share partition answers as Apache Kafka's."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from protocol.errors import KafkaError
from protocol.share_states import DeliveryState, ShareAcquireMode, StateBatch
from replication.sharing.acknowledgements import AckBatch
from replication.sharing.share_partition import ShareChange, ShareLimits, SharePartition, StoredShare
from tests.oracle.share_partitions import Script, scripts_in

SCRIPTS = scripts_in()


class Player:
    """Plays a script on our share partition. Its answers are as `comparable` makes Kafka's."""

    def __init__(self, script: Script) -> None:
        self.script = script
        stored = [
            StateBatch(first, last, DeliveryState(state), count) for first, last, state, count in script["stored"]
        ]
        limits = ShareLimits(script["deliveries"], script["locks"])
        self.share = SharePartition(StoredShare(0, script["start"], 0, stored), limits)
        self.now_ms = 0
        self.pending: deque[ShareChange] = deque()

    def play(self, step: list[Any]) -> dict[str, Any]:
        what, *asked = step
        answer: dict[str, Any] = {}
        change: ShareChange | None = None
        if what == "acquire":
            answer["rows"] = self._acquire(*asked)
        elif what == "acknowledge":
            member, rows = asked
            answer["error"] = None
            try:
                change = self.share.acknowledge(
                    member, [AckBatch(*row) for row in rows], lock_until_ms=self._lock_until_ms
                )
            except KafkaError as error:
                answer["error"] = error.message
        elif what == "release":
            change = self.share.release(*asked)
        elif what == "time":
            self.now_ms = asked[0]
            expired = self.share.expire(self.now_ms)
            answer["written"] = _written(expired)
            if expired is not None:
                expired.succeeded()
        elif what == "stored":
            if self.pending:
                outcome = self.pending.popleft()
                outcome.succeeded() if asked[0] else outcome.failed()
        else:
            self.share.advance_log_start(*asked)
        if change is not None and not change.is_empty:
            self.pending.append(change)
        answer.setdefault("written", _written(change))
        share = self.share
        answer["offsets"] = [share.start_offset, share.end_offset, share.next_fetch_offset()]
        answer["can_acquire"] = share.may_acquire()
        answer["delivery_complete_count"] = share.delivery_complete_count
        return answer

    @property
    def _lock_until_ms(self) -> int:
        return self.now_ms + int(self.script["lock_ms"])

    def _acquire(self, member: str, limited: bool, batch_size: int, max_records: int, count: int) -> list[list[int]]:
        offset = self.share.next_fetch_offset()
        rows = self.share.acquire(
            member,
            [(first, last) for first, last in self.script["log"] if last >= offset][:count],
            fetch_offset=offset,
            max_records=max_records,
            batch_size=batch_size,
            mode=ShareAcquireMode.RECORD_LIMIT if limited else ShareAcquireMode.BATCH_OPTIMIZED,
            lock_until_ms=self._lock_until_ms,
        )
        return [list(row) for row in rows]


def _written(change: ShareChange | None) -> list[Any]:
    if change is None or change.is_empty:
        return []
    return [change.start_offset, change.delivery_complete_count, [list(row) for row in change.batches]]


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Kafka writes record by record, and at the end of each lock: here as one write, with neighbours joined."""
    if not answer["written"]:
        return answer
    joined: list[list[int]] = []
    for row in sorted(row for _, _, rows in answer["written"] for row in rows):
        if joined and joined[-1][1] + 1 == row[0] and joined[-1][2:] == row[2:]:
            joined[-1][1] = row[1]
        else:
            joined.append(list(row))
    start_offset, delivery_complete_count, _ = answer["written"][-1]
    return {**answer, "written": [start_offset, delivery_complete_count, joined]}


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_ours_answers_as_recorded(number: int) -> None:
    script = SCRIPTS[number]
    player = Player(script)
    for at, (step, recorded) in enumerate(zip(script["steps"], script["answers"], strict=True)):
        assert (at, step, player.play(step)) == (at, step, comparable(recorded))

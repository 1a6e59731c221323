"""What the processes of the relay send, seen on its way: the records of their transactions, and the positions they commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from client.error_codes import error_codes
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.batch import read_header
from protocol.records.record import Record, iter_records
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import sound_batches
from tests.simulation.relays.facts import Life, Send, text_of

if TYPE_CHECKING:
    from tests.simulation.relays.machine import RelayMachine
    from tests.simulation.relays.world import RelayWorld

_MAX_DECOMPRESSED_BYTES = 1 << 24


class RelayWire:
    """Fits `Observer`. Of one process."""

    def __init__(self, world: RelayWorld, machine: RelayMachine, life: Life) -> None:
        self._world = world
        self._machine = machine
        self._life = life
        self._outputs = set(world.relay_plan.outputs)
        self._positions: dict[str, dict[TopicPartition, int]] = {}  # by transactional id, of its transaction
        self.pauses_after: type[Request] | None = None
        """The machine is to stand still behind the next answer to such a request."""

    def sending(self, broker_id: int, request: Request) -> object:
        if isinstance(request, ProduceRequest):
            for topic in request.topic_data:
                if topic.name in self._outputs:
                    for row in topic.partition_data:
                        for record in _records(bytes(row.records or b"")):
                            self._sent(topic.name, record)
        return None

    def _sent(self, topic: str, record: Record) -> None:
        world = self._world
        world.known.sent(
            Send(text_of(record), topic, record.timestamp, self._machine.wall_peak_ms(), world.loop.time(), self._life)
        )

    def unanswered(self, request: Request) -> None:
        """It may have happened: nothing is known."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        if any(error_codes(response)):
            return
        if type(request) is self.pauses_after and self._is_in_transaction(request):
            self.pauses_after = None
            self._world.loop.outside(self._machine.pause)
        match request:
            case TxnOffsetCommitRequest():
                pending = self._positions.setdefault(request.transactional_id, {})
                for topic in request.topics:
                    for row in topic.partitions:
                        pending[topic.name, row.partition_index] = row.committed_offset
            case EndTxnRequest():
                positions = self._positions.pop(request.transactional_id, {})
                self._world.count("relay transactions committed" if request.committed else "relay transactions aborted")
                if request.committed:
                    for key, position in positions.items():
                        self._world.known.taken.setdefault(key, []).append((self._world.loop.time(), position))

    @staticmethod
    def _is_in_transaction(request: Request) -> bool:
        return not isinstance(request, ProduceRequest) or request.transactional_id is not None


def _records(content: bytes) -> Iterator[Record]:
    for batch in sound_batches(content):
        yield from iter_records(batch.content, 0, read_header(batch.content, 0), _MAX_DECOMPRESSED_BYTES)

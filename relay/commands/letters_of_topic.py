"""The dead letters of a topic as a command works on them: read to the end, brought back, looked through for a purge.

Rules: whoever waits is told why (`tools.waiting`), and how far the work has come. A Ctrl-C says how far it came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from client.errors import FatalError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST
from relay.commands.loop import NewClient, on_loop
from relay.dead_letters.fates import RequeueRule
from relay.dead_letters.marks import MARKS_TOPIC, Marks
from relay.dead_letters.marks_topic import make_marks_topic, read_marks
from relay.dead_letters.purge import Purge
from relay.dead_letters.requeue import Requeue
from relay.dead_letters.scan import RangeScan
from runtime.command_line.failure import Failure, Interrupted
from runtime.command_line.output import Output
from runtime.command_line.progress import Progress
from runtime.randomness import Randomness, system_randomness
from runtime.texts import count_text
from tools.cluster import CHANGE_TIMEOUT_MS, Cluster
from tools.group_lag import Key, end_offsets, offsets_of, offsets_since

if TYPE_CHECKING:
    from client.reading.positions import ReadRecord
    from relay.dead_letters.selection import LetterSelection


@dataclass
class LettersOfTopic:
    """The letters of a topic, in some of its partitions."""

    cluster: Cluster
    topic: str
    selection: LetterSelection
    keys: list[Key]

    def __post_init__(self) -> None:
        topic_id = self.cluster.client.topics([self.topic])[self.topic].topic_id
        self.marks = Marks(self.topic, topic_id.hex())
        self._randomness: Randomness = system_randomness()

    def each(self, take: Callable[[ReadRecord], bool]) -> None:
        """Read what may be meant, until `take` returns False. Raises KafkaError, Interrupted."""
        starts, ends = self._bounds()
        progress, looked = self._progress(starts, ends), 0

        async def work(new_client: NewClient) -> None:
            nonlocal looked
            client = new_client()
            try:
                await read_marks(client, self._randomness, self.marks)
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise
                Output.note(f"{MARKS_TOPIC} may not be read: letters that were brought back are among these")
            scan = RangeScan(client, self._randomness, starts, ends, self.cluster.waits.moved)
            with self.cluster.waits.reading(self.topic, scan.left):
                async with aclosing(scan.batches()) as batches:
                    async for records in batches:
                        for one in records:
                            if not take(one):
                                return
                        looked += len(records)
                        progress.show(looked)

        self._run(work, progress, lambda: f"interrupted after {count_text(looked, 'dead letter')}")

    def requeue(self, rule: RequeueRule, limit: int | None, *, is_execution: bool) -> Requeue:
        """Bring letters back, or only look. Raises KafkaError, Failure, Interrupted."""
        starts, ends = self._bounds()
        progress = self._progress(starts, ends)
        made: list[Requeue] = []
        first = self._starts()

        async def work(new_client: NewClient) -> None:
            run = Requeue(
                rule, self.marks, first, starts, ends, new_client, self.cluster.clock, self._randomness, limit,
                lambda run: progress.show(run.looked, f"{run.targets.total()} brought back"), self.cluster.waits.moved,
            )  # fmt: skip
            made.append(run)
            with self.cluster.waits.reading(self.topic, run.left):
                await (run.bring_back() if is_execution else run.look())

        def told_interrupted() -> str:
            count = made[0].targets.total() if made and is_execution else 0
            return f"interrupted after {count_text(count, 'letter')} came back; the same command goes on, and brings none twice"

        try:
            self._run(work, progress, told_interrupted)
        except FatalError as error:
            if error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
                raise Failure(f"another run brings letters of {self.topic} back: this one has ended") from error
            raise
        return made[0]

    def purge(self, *, selects: bool) -> tuple[Purge, dict[Key, int], dict[Key, int]]:
        """Return what may go, and where the partitions begin and end now."""
        starts, ends = self._starts(), self._ends()
        progress = self._progress(starts, ends)
        purge = Purge(
            RequeueRule(self.topic, self.selection), self.marks, self.cluster.clock.wall_ms(), selects,
            lambda purge: progress.show(purge.looked),
        )  # fmt: skip

        async def work(new_client: NewClient) -> None:
            client = new_client()
            await read_marks(client, self._randomness, self.marks)
            scan = RangeScan(client, self._randomness, starts, ends, self.cluster.waits.moved)
            with self.cluster.waits.reading(self.topic, scan.left):
                await purge.look(scan)

        self._run(work, progress, lambda: "interrupted; nothing was deleted")
        return purge, starts, ends

    def make_marks_topic(self) -> None:
        """Make it where it is missing. Raises KafkaError."""
        if MARKS_TOPIC in self.cluster.client.topics([MARKS_TOPIC]):
            return  # who may write it may not have the right to create it
        if self.cluster.run(make_marks_topic(CHANGE_TIMEOUT_MS), CHANGE_TIMEOUT_MS):
            self.cluster.client.settled_topics([MARKS_TOPIC])
            Output.note(f"made topic {MARKS_TOPIC}, which says what was brought back")

    def _run(
        self, work: Callable[[NewClient], Awaitable[None]], progress: Progress, interrupted: Callable[[], str]
    ) -> None:
        try:
            on_loop(self.cluster, self._randomness, work)
        except KeyboardInterrupt:
            raise Interrupted(interrupted()) from None
        finally:
            progress.close()

    def _progress(self, starts: Mapping[Key, int], ends: Mapping[Key, int]) -> Progress:
        total = sum(max(end - starts[key], 0) for key, end in ends.items())
        return Progress("dead letters looked at", total, self.cluster.clock)

    def _bounds(self) -> tuple[dict[Key, int], dict[Key, int]]:
        """Return the range in which letters may be meant."""
        chosen, starts, ends = self.selection, self._starts(), self._ends()
        if chosen.since_ms is not None:
            for key, since in self.cluster.run(offsets_since(self.keys, chosen.since_ms)).items():
                starts[key] = ends[key] if since is None else max(starts[key], since)
        if chosen.from_offset is not None:
            starts = {key: max(start, chosen.from_offset) for key, start in starts.items()}
        if chosen.until_offset is not None:
            ends = {key: min(end, chosen.until_offset) for key, end in ends.items()}
        return starts, ends

    def _starts(self) -> dict[Key, int]:
        return self._known(self.cluster.run(offsets_of(self.keys, EARLIEST)))

    def _ends(self) -> dict[Key, int]:
        return self._known(self.cluster.run(end_offsets(self.keys, is_committed_only=True)))

    @staticmethod
    def _known(found: Mapping[Key, int | None]) -> dict[Key, int]:
        known = {key: offset for key, offset in found.items() if offset is not None}
        for topic, partition in found.keys() - known.keys():
            raise Failure(f"partition {topic}-{partition} does not answer; `barnabas cluster health` tells more")
        return known

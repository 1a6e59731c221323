"""The records of fetched batches that a request asks for, decoded, in the form in which they are shown.

Rules: what takes long runs in slices of the event loop, or in a thread: large values, in which RE2 leaves the
interpreter to others. A batch that cannot be read is passed over, and the note of its partition says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.records.invalid import InvalidBatch
from runtime.slices import Slices
from web.messages.conditions import MAX_JSON_BYTES, Conditions, Contents, is_slow_for
from web.messages.decoding import RecordDecoding
from web.messages.scan import Candidate, Scan
from web.messages.shown import Decoded, RecordForm

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from concurrent.futures import Executor

    from client.reading.positions import FetchedBatches
    from protocol.records.record import Record
    from runtime.clock import Clock
    from web.messages.progress import PartitionRange


class Match(NamedTuple):
    """A record that was asked for; `shown` is what decoders made of key and value."""

    candidate: Candidate
    key: Decoded | None
    value: Decoded | None

    @property
    def record(self) -> Record:
        return self.candidate.record


@dataclass(slots=True)
class Matching:
    """What one request looks for. `left_out` counts values that were too large to be read as JSON."""

    topic: str
    conditions: Conditions
    scan: Scan
    decoding: RecordDecoding
    form: RecordForm
    clock: Clock
    threads: Executor
    left_out: int = 0

    @classmethod
    def of(
        cls, conditions: Conditions, decoding: RecordDecoding, form: RecordForm, clock: Clock, threads: Executor
    ) -> Matching:
        scan = Scan.of(conditions, decodes_key=decoding.decodes_key, decodes_value=decoding.decodes_value)
        return cls(decoding.topic, conditions, scan, decoding, form, clock, threads)

    async def matches(self, fetched: FetchedBatches, row: PartitionRange) -> AsyncGenerator[Match | None, None]:
        """Iterate over the matches of a fetch, and pass with `row` behind what was looked at; None where time may have
        passed."""
        slices = Slices(self.clock)
        end = fetched.next_offset if row.end is None else row.end
        for at, header in fetched.batches:
            try:
                for step in self.scan.scan(fetched.buffer, at, header, row.at, end):
                    if slices.is_over:
                        yield None
                        await slices.yield_if_due()
                    match = None if step is None else await self._match(step)
                    if match is not None:
                        row.pass_to(match.record.offset + 1)
                        yield match
            except InvalidBatch as error:
                row.note = f"the records from {header.base_offset} to {header.last_offset} cannot be read: {error}"
                row.has_gaps = True
            row.pass_to(header.last_offset + 1)
        row.pass_to(fetched.next_offset)

    def shown(self, partition: int, match: Match) -> dict[str, Any]:
        """Return a match in JSON."""
        candidate = match.candidate
        return self.form.as_json(self.topic, partition, candidate.record, candidate.header, match.key, match.value)

    async def _match(self, candidate: Candidate) -> Match | None:
        key, value = await self.decoding.decoded(candidate.record)
        if not candidate.is_sure:
            contents = self.decoding.contents(candidate.record, key, value)
            if not await self._hold(contents):
                return None
        return Match(candidate, key, value)

    async def _hold(self, contents: Contents) -> bool:
        if self.conditions.reads_json and len(contents.value or b"") > MAX_JSON_BYTES:
            self.left_out += 1
        if not is_slow_for(contents):
            return self.conditions.hold(contents)
        return await asyncio.get_running_loop().run_in_executor(self.threads, self.conditions.hold, contents)

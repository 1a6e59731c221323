"""Finds the records of a batch that fulfil conditions, without objects for those that a look at their bytes excludes. Pure.

`scan` is a generator of short steps: it yields None where others may have their turn, and a `Candidate` for each
record that fulfils the conditions, or of which that is not known yet: one that is decoded first, or so large that a
thread looks at it.

Source: KIP-98; Kafka DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from protocol.records.any_format import iter_any_records
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader
from protocol.records.compression import decompress_chunks
from protocol.records.record import Record, read_record, record_spans, records_block
from web.messages.conditions import Conditions, Contents, is_slow_for
from web.messages.prefilter import Prefilter

MAX_DECOMPRESSED_BYTES: Final = 128 << 20
_STEP_RECORDS: Final = 32
_STEP_BYTES: Final = 256 << 10
_LONG_BYTES: Final = 4 << 20
"""Looking for a text in more bytes than this takes too long at once; their records are larger, too, and looked at in a
thread."""


class Candidate(NamedTuple):
    """`is_sure`: the conditions hold."""

    record: Record
    header: BatchHeader
    is_sure: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """`decodes`: the conditions look at what keys and values are decoded to, which the caller does."""

    conditions: Conditions = field(default_factory=Conditions)
    prefilter: Prefilter = field(default_factory=Prefilter)
    decodes: bool = False

    @classmethod
    def of(cls, conditions: Conditions, *, decodes_key: bool = False, decodes_value: bool = False) -> Scan:
        return cls(
            conditions,
            Prefilter.of(conditions, decodes_key=decodes_key, decodes_value=decodes_value),
            decodes=(decodes_key or decodes_value) and bool(conditions.conditions),
        )

    def scan(
        self, buffer: bytes, position: int, header: BatchHeader, first: int, end: int
    ) -> Iterator[Candidate | None]:
        """Iterate over the candidates of one batch with offsets in [first, end). Raises InvalidBatch."""
        since_ms = self.conditions.since_ms
        if since_ms is not None and header.max_timestamp < since_ms:
            return
        if header.magic < MAGIC_V2:
            yield from self._of_records(
                iter_any_records(buffer, position, header, MAX_DECOMPRESSED_BYTES), header, first, end
            )
            return
        if not header.is_compressed:
            yield from self._of_block(buffer, position + HEADER_BYTES, position + header.size_bytes, header, first, end)
            return
        chunks: list[bytes] = []
        block = records_block(buffer, position, header)
        for chunk in decompress_chunks(header.compression, block, MAX_DECOMPRESSED_BYTES):
            chunks.append(bytes(chunk))
            yield None
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        yield from self._of_block(data, 0, len(data), header, first, end)

    def _of_block(
        self, data: bytes, start: int, end: int, header: BatchHeader, first: int, end_offset: int
    ) -> Iterator[Candidate | None]:
        prefilter = self.prefilter
        if prefilter.is_empty or end - start > _LONG_BYTES:
            yield from self._of_records(
                (read_record(data, *span, header) for span in record_spans(data, start, end, header.records_count)),
                header,
                first,
                end_offset,
            )
            return
        if not prefilter.may_hold(data, start, end):
            return
        possible = prefilter.next_possible(data, start, end)
        looked_bytes = 0
        for begin, behind in record_spans(data, start, end, header.records_count):
            if possible >= behind:
                continue
            if prefilter.may_hold(data, begin, behind):
                yield from self._of_records((read_record(data, begin, behind, header),), header, first, end_offset)
            looked_bytes += behind - begin
            if looked_bytes > _STEP_BYTES:
                looked_bytes = 0
                yield None
            possible = prefilter.next_possible(data, behind, end)
            if possible == end:
                return

    def _of_records(
        self, records: Iterator[Record] | tuple[Record, ...], header: BatchHeader, first: int, end: int
    ) -> Iterator[Candidate | None]:
        conditions = self.conditions
        for number, record in enumerate(records):
            if number % _STEP_RECORDS == _STEP_RECORDS - 1:
                yield None
            if not first <= record.offset < end or not conditions.takes_time(record.timestamp):
                continue
            contents = Contents(record.key, record.value, record.headers)
            if self.decodes or (conditions.conditions and is_slow_for(contents)):
                yield Candidate(record, header, is_sure=False)
            elif conditions.hold(contents):
                yield Candidate(record, header, is_sure=True)

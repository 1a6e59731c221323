"""Appends batches that another log has: they keep their offsets and leader epochs.

Rules: runs on the event loop, within `PartitionLog.append`, which has checked them. Any number of batches, divided where a
segment could not contain all.
Invariant: batches continue at or behind the log's end; the outcome of the last piece is that of all, because they are written
in order or not at all.
Source: Kafka UnifiedLog.appendAsFollower.
"""

from __future__ import annotations

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from runtime.disk.filesystem import Buffer
from storage.folder_files import partition_folder
from storage.log.append_result import AppendResult, extent_of
from storage.log.validation import ValidatedRecords
from storage.log.writing.log_writer import LogWriter
from storage.log.writing.pending_writes import Done, ignore_result
from storage.segments.segment import MOST_RECORDS, fit_one_segment, rolls_at
from storage.segments.txn_index import AbortedTxn


def append_copied(writer: LogWriter, checked: ValidatedRecords, now_ms: int, done: Done) -> AppendResult:
    """Append any number of batches of the leader.

    Raises CORRUPT_MESSAGE when they do not continue where the log ends.
    """
    records, headers = checked.records, checked.headers
    if headers[0].base_offset < writer.offsets.next_offset:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{partition_folder(*writer.key)} ends at {writer.offsets.next_offset}; the copied batch is {headers[0]}.",
        )
    records_count, at = 0, 0
    pieces = _pieces(headers, len(records), writer.config)
    for number, piece in enumerate(pieces, 1):
        size_bytes = len(records) if len(pieces) == 1 else sum(header.size_bytes for header in piece)
        done_with_piece = done if number == len(pieces) else ignore_result
        records_count += _append_piece(
            writer, memoryview(records)[at : at + size_bytes], piece, now_ms, done_with_piece
        )
        at += size_bytes
    return AppendResult(
        headers[0].base_offset,
        headers[-1].last_offset,
        checked.log_append_time_ms,
        writer.offsets.log_start_offset,
        records_count,
    )


def _pieces(headers: list[BatchHeader], size_bytes: int, limits: LogConfig) -> list[list[BatchHeader]]:
    """Divide the batches into pieces that fit the indexes and the offset range of one segment: nearly always one piece."""
    is_narrow = headers[-1].last_offset - headers[0].base_offset < MOST_RECORDS
    if is_narrow and fit_one_segment(len(headers), size_bytes, limits):
        return [headers]
    pieces: list[list[BatchHeader]] = [[]]
    piece_bytes = 0
    for header in headers:
        piece = pieces[-1]
        if piece and not (
            header.last_offset - piece[0].base_offset < MOST_RECORDS
            and fit_one_segment(len(piece) + 1, piece_bytes + header.size_bytes, limits)
        ):
            pieces.append([])
            piece_bytes = 0
        pieces[-1].append(header)
        piece_bytes += header.size_bytes
    return pieces


def _append_piece(writer: LogWriter, records: Buffer, headers: list[BatchHeader], now_ms: int, done: Done) -> int:
    """Append one piece; returns its number of records."""
    extent = extent_of(headers)
    next_offset, max_timestamp = extent.next_offset, extent.max_timestamp
    base_offset = rolls_at(writer.offsets.next_offset, extent.base_offset, next_offset - 1)
    writer.make_room(base_offset, next_offset - 1, len(records), max_timestamp, now_ms, len(headers))
    aborted = _note_batches(writer, records, headers)
    writer.offsets.next_offset = next_offset
    writer.enqueue_write(
        records, next_offset, max_timestamp, extent.offset_of_max_timestamp, now_ms, done, aborted,
        headers if len(headers) > 1 else (),
    )  # fmt: skip
    return extent.records_count


def _note_batches(writer: LogWriter, records: Buffer, headers: list[BatchHeader]) -> list[AbortedTxn]:
    """Update producers and epochs for batches that are about to be placed; returns the transactions that they abort."""
    position = 0
    aborted: list[AbortedTxn] = []
    producers, epochs = writer.producers, writer.epochs
    for header in headers:
        if header.producer_id >= 0:
            ended = producers.replay(records, position, header)
            if ended is not None and ended.is_aborted:
                aborted.append(producers.states.aborted(ended))
        if header.partition_leader_epoch > epochs.known.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        position += header.size_bytes
    return aborted

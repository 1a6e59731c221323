"""`barnabas dump-log`: prints the contents of the files of a data directory, in the format of Apache Kafka's DumpLogSegments.

    .log                         batches, with --deep-iteration their records, with --print-data-log keys and values
    .index, .timeindex           entries, compared with the log (`dump_index`)
    .snapshot, .txnindex         producers; aborted transactions
    leader-epoch-checkpoint, *-offset-checkpoint, partition.metadata    ignored by Apache Kafka's tool

A folder means all its files, a log directory those of all its partitions; a folder without any such file is a problem.

Rules: blocking; reads only, a window at a time, so that it can run beside a running broker and on large files. Damaged
content never ends a dump: it is reported, the next file follows, and `finish` reports the number of problems. Each problem is
reported with its file and position, also where Apache Kafka's tool only mentions it within its output.
Source: Kafka DumpLogSegments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from protocol.primitives import DecodeError, uuid_to_text
from protocol.records.batch import NO_SEQUENCE, BatchHeader
from protocol.records.control import ControlType, decode_marker
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record
from runtime.disk.filesystem import FileSystem
from storage.checkpoint import CorruptCheckpoint, decode_offsets
from storage.directories.log_directory import parse_partition_folder
from storage.folder_files import LEADER_EPOCH_FILE, PARTITION_METADATA_FILE, parse_partition_metadata
from storage.log.leader_epochs import LeaderEpochs
from storage.log.producers.producer_state import CorruptSnapshot, snapshot_rows
from storage.offline.dump_findings import Findings
from storage.offline.dump_index import IndexDump
from storage.offline.dump_text import Decoder, plain_texts
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.interrupted_swap import segment_file_offset
from storage.segments.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from storage.segments.stored_batches import CorruptLog, StoredBatch, StoredBatches, codec_name
from storage.segments.txn_index import CorruptTxnIndex, check_content, decode_transactions

OFFSET_CHECKPOINT_SUFFIX = "-offset-checkpoint"
_INDENT = "| "
_CONTROL_TYPES = {
    2: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER", 5: "KRAFT_VERSION", 6: "KRAFT_VOTERS",
}  # fmt: skip
_MAX_SMALL_FILE_BYTES = 64 * 1024 * 1024
_CONTROL_TYPE_AT = 2
_MAX_SEQUENCE = 0x7FFF_FFFF

Line = Callable[[str], None]
Progress = Callable[[str, int], None]
"""Called with a file and how many of its bytes were dumped: 0 at its start, then behind each batch of a log."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options under Kafka's names; `decoder` formats keys and values, and `log_notes` are printed before each `.log`."""

    deep_iteration: bool = False
    print_data_log: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int | None = None
    skip_record_metadata: bool = False
    decoder: Decoder = plain_texts
    log_notes: tuple[str, ...] = ()


class Dump:
    """Dumps files: call `path` for each, then `finish`. `line` prints output, `complain` prints problems, `progress` hears how
    far it has come."""

    def __init__(
        self,
        filesystem: FileSystem,
        options: DumpOptions,
        line: Line,
        complain: Line,
        progress: Progress = lambda _path, _position: None,
    ) -> None:
        self._filesystem = filesystem
        self._options = options
        self._line = line
        self._complain = complain
        self._progress = progress
        self._findings = Findings()

    def finish(self) -> int:
        """Report the problems found; return their number."""
        self._findings.tell(self._complain)
        return self._findings.count

    def path(self, path: str) -> None:
        """Dump a file, or the files of a folder in the order of their names."""
        if not self._filesystem.is_directory(path):
            self._file(path)
        elif not self._folder(path.rstrip("/") or "/"):
            self._problem(f"{path} is neither a log directory nor the folder of a partition: it has no file to dump")

    def _folder(self, folder: str) -> bool:
        """Dump the folder's known files and skip others; return whether there were any."""
        try:
            names = self._filesystem.list_directory(folder)
        except OSError as error:
            self._unreadable(folder, error)
            return True
        has_any = False
        for name in names:
            inner = f"{folder}/{name}"
            if not self._filesystem.is_directory(inner):
                if is_dumped(name):
                    has_any = True
                    self._file(inner)
            elif parse_partition_folder(name) is not None:
                has_any |= self._folder(inner)
        return has_any

    def _file(self, path: str) -> None:
        self._progress(path, 0)
        self._line(f"Dumping {path}")
        name = path.rpartition("/")[2]
        try:
            self._dump(path, name)
        except OSError as error:
            self._unreadable(path, error)

    def _unreadable(self, path: str, error: OSError) -> None:
        # An index is read together with its log: the error names the one that failed.
        self._problem(f"Cannot read {error.filename or path}: {error.strerror or error}")

    def _problem(self, text: str) -> None:
        self._findings.problem()
        self._complain(text)

    def _dump(self, path: str, name: str) -> None:
        suffix, base_offset = name[name.rfind(".") :] if "." in name else "", _named_offset(name)
        if name == LEADER_EPOCH_FILE:
            self._leader_epochs(path)
        elif name.endswith(OFFSET_CHECKPOINT_SUFFIX):
            self._offset_checkpoint(path)
        elif name == PARTITION_METADATA_FILE:
            self._partition_metadata(path)
        elif suffix not in _SEGMENT_SUFFIXES:
            self._filesystem.stat(path)  # a missing file is reported as missing, not as unknown
            self._complain(f"Ignoring unknown file {path}")
        elif suffix == SNAPSHOT_SUFFIX:
            self._snapshot(path)
        elif base_offset is None:
            self._filesystem.stat(path)
            self._problem(f"Cannot read {path}: its name does not begin with the offset that it begins with")
        elif suffix == LOG_SUFFIX:
            self._log(path, name, base_offset)
        elif suffix == TXN_INDEX_SUFFIX:
            self._transactions(path, base_offset)
        else:
            self._index(path, suffix, base_offset)

    def _index(self, path: str, suffix: str, base_offset: int) -> None:
        dump = IndexDump(self._filesystem, path, base_offset, self._findings, line=self._line, complain=self._complain)
        options = self._options
        show = dump.offsets if suffix == OffsetIndex.suffix else dump.times
        show(is_shown=not options.verify_index_only, only_sanity=options.index_sanity_check)

    # --- the log ---

    def _log(self, path: str, name: str, base_offset: int) -> None:
        for note in self._options.log_notes:
            self._line(note)
        self._line(f"Log starting offset: {base_offset}")
        limit = self._options.max_bytes
        file = self._filesystem.open(path, writable=False)
        try:
            batches = StoredBatches(file, limit)
            offsets = _Offsets(self._filesystem.absolute(path), self._findings)
            problem = None
            try:
                for batch in batches:
                    self._batch(path, batch)
                    if self._options.deep_iteration:
                        self._records(path, batch, offsets)
                    self._progress(path, batch.position + batch.size_bytes)
            except CorruptLog as error:
                problem = str(error)
            trailing_bytes = batches.trailing_bytes
            if trailing_bytes and limit is None:
                self._line(f"Found {trailing_bytes} invalid bytes at the end of {name}")
                if problem is None:
                    problem = (
                        f"the last {trailing_bytes} bytes, from position {batches.position} on, are no whole batch"
                    )
            if problem is not None:
                self._problem(f"{path}: {problem}")
        finally:
            file.close()

    def _batch(self, path: str, batch: StoredBatch) -> None:
        header, is_valid = batch.header, batch.is_valid()
        if batch.is_legacy:
            start, what = f"offset: {header.last_offset}", f"the message of offset {header.last_offset}"
        else:
            what = f"the batch of offsets {header.base_offset} to {header.last_offset}"
            start = (
                f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
                f"baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)} "
                f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
                f"partitionLeaderEpoch: {header.partition_leader_epoch} "
                f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
                f"deleteHorizonMs: {_optional(header.base_timestamp if header.has_delete_horizon else None)}"
            )
        self._line(
            f"{start} position: {batch.position} {_timestamp_type(header)}: {header.max_timestamp} "
            f"size: {batch.size_bytes} magic: {header.magic} compresscodec: {codec_name(header)} crc: {header.crc} "
            f"isvalid: {_bool(is_valid)}"
        )
        if not is_valid:
            self._problem(f"{path}: {what} at position {batch.position} has a wrong checksum")

    def _records(self, path: str, batch: StoredBatch, offsets: _Offsets) -> None:
        try:
            if batch.is_legacy:
                for record, message in batch.messages():
                    offsets.follow(record.offset)
                    is_valid = message.crc_is_valid
                    self._record(batch.header, record, f"isValid: {_bool(is_valid)} crc: {message.header.crc}}}")
                    if not is_valid and batch.header.is_compressed:  # else it is the batch, reported already
                        what = f"the message of offset {record.offset} inside the one at position {batch.position}"
                        self._problem(f"{path}: {what} has a wrong checksum")
                return
            for record in batch.records():
                offsets.follow(record.offset)
                sequence = _record_sequence(batch.header, record.offset - batch.header.base_offset)
                names = ",".join(name for name, _ in record.headers)
                self._record(batch.header, record, f"sequence: {sequence} headerKeys: [{names}]")
        except InvalidBatch as error:
            self._problem(f"{path}: the records of the batch at position {batch.position} cannot be read: {error}")

    def _record(self, header: BatchHeader, record: Record, details: str) -> None:
        options = self._options
        parts: list[str] = []
        prefix = _INDENT
        if not options.skip_record_metadata:
            parts.append(
                f"{prefix}offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} {details}"
            )
            prefix = " "
            if header.is_control:
                parts.append(_control_text(record))
        if options.print_data_log and not header.is_control:
            key, payload = options.decoder(record)
            if key is not None:
                parts.append(f"{prefix}key: {key}")
            if payload is not None:
                parts.append(f" payload: {payload}")
        self._line("".join(parts))

    # --- other files ---

    def _snapshot(self, path: str) -> None:
        try:
            rows = snapshot_rows(self._small(path))
        except CorruptSnapshot as error:
            self._problem(f"Snapshot failed to load: {path}: {error}")
            return
        for producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset in rows:
            batch = (
                f"firstSequence: {_sequence_before(last_sequence, delta)} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
            self._line(
                f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
                f"currentTxnFirstOffset: {_optional(first_offset if first_offset >= 0 else None)} "
                f"lastTimestamp: {timestamp} {batch if last_offset >= 0 else ''}"
            )

    def _transactions(self, path: str, base_offset: int) -> None:
        content = self._small(path)
        try:
            for each in decode_transactions(content):
                self._line(
                    f"version: 0 producerId: {each.producer_id} firstOffset: {each.first_offset} "
                    f"lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
                )
            check_content(content, base_offset)
        except CorruptTxnIndex as error:
            self._problem(f"Corrupt transaction index {path}: {error}")

    def _leader_epochs(self, path: str) -> None:
        try:
            entries = LeaderEpochs.from_checkpoint(self._small(path)).entries
        except CorruptCheckpoint as error:
            self._problem(f"Corrupt checkpoint {path}: {error}")
            return
        for epoch, start_offset in entries:
            self._line(f"epoch: {epoch} startOffset: {start_offset}")

    def _offset_checkpoint(self, path: str) -> None:
        try:
            offsets = decode_offsets(self._small(path))
        except CorruptCheckpoint as error:
            self._problem(f"Corrupt checkpoint {path}: {error}")
            return
        for (topic, partition), offset in offsets.items():
            self._line(f"topic: {topic} partition: {partition} offset: {offset}")

    def _partition_metadata(self, path: str) -> None:
        try:
            self._line(f"topicId: {uuid_to_text(parse_partition_metadata(self._small(path)))}")
        except DecodeError as error:
            self._problem(f"Corrupt file {path}: {error}")

    def _small(self, path: str) -> bytes:
        """Read the whole of a file that is small if it is valid. Raises OSError."""
        size_bytes = self._filesystem.stat(path).size_bytes
        if size_bytes > _MAX_SMALL_FILE_BYTES:
            raise OSError(f"{size_bytes} bytes are too many for such a file")
        return self._filesystem.read_bytes(path)


_SEGMENT_SUFFIXES = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)


class _Offsets:
    """Checks whether each record's offset follows the previous one."""

    __slots__ = ("_findings", "_last", "_path")

    def __init__(self, path: str, findings: Findings) -> None:
        self._path = path
        self._findings = findings
        self._last: int | None = None

    def follow(self, offset: int) -> None:
        if self._last is not None and offset != self._last + 1:
            self._findings.gap(self._path, self._last, offset)
        self._last = offset


def _named_offset(name: str) -> int | None:
    """Return the offset in a file name; like Apache Kafka's tool, with any number of digits."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def is_dumped(name: str) -> bool:
    """Return whether a dump of a folder includes a file of this name."""
    return (
        name in (LEADER_EPOCH_FILE, PARTITION_METADATA_FILE)
        or name.endswith(OFFSET_CHECKPOINT_SUFFIX)
        or (segment_file_offset(name) is not None and name.endswith(_SEGMENT_SUFFIXES))
    )


# --- values as Java prints them ---


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _timestamp_type(header: BatchHeader) -> str:
    if not header.magic:
        return "NoTimestampType"
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _last_sequence(header: BatchHeader) -> int:
    first = header.base_sequence
    return first if first == NO_SEQUENCE else _sequence_behind(first, header.last_offset_delta)


def _record_sequence(header: BatchHeader, delta: int) -> int:
    first = header.base_sequence
    return NO_SEQUENCE if first < 0 else _sequence_behind(first, delta)


def _sequence_behind(sequence: int, delta: int) -> int:
    """Return Kafka's result with Java's int overflow, also for the values of a damaged file."""
    if sequence > _int32(_MAX_SEQUENCE - delta):
        return _int32(delta - (_MAX_SEQUENCE - sequence) - 1)
    return _int32(sequence + delta)


def _sequence_before(sequence: int, delta: int) -> int:
    if sequence < delta:
        return _int32(_MAX_SEQUENCE - (delta - sequence) + 1)
    return _int32(sequence - delta)


def _int32(number: int) -> int:
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def _control_text(record: Record) -> str:
    marker = decode_marker(record)
    if marker is not None:
        return f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    assert record.key is not None  # checked by decode_marker
    number = int.from_bytes(record.key[_CONTROL_TYPE_AT : _CONTROL_TYPE_AT + 2], "big", signed=True)
    assert number not in tuple(ControlType)
    return f" controlType: {_CONTROL_TYPES.get(number, 'UNKNOWN')}({number})"

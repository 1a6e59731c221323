"""Formats keys and values of records as the text that `dump-log` prints: plain, or decoded for the internal topics.

`__consumer_offsets` becomes JSON, with Kafka's field names and the members' subscriptions and assignments decoded;
`__transaction_state` becomes the line that Apache Kafka's transaction log formats, and `__share_group_state` becomes JSON.

Rules: pure. What cannot be decoded is reported in place of the key, and the dump goes on.
Source: Kafka DumpLogSegments (OffsetsMessageParser, TransactionLogMessageParser; of 4.3 ShareGroupStateMessageParser), the
generated JsonConverters, TransactionLog.formatRecordKeyAndValue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError

from protocol.java_text import AS_JAVA
from protocol.primitives import DecodeError
from protocol.records.record import Record
from protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.stored.json_form import message_fields, open_members
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from protocol.stored.stored import Stored, stored_version
from protocol.stored.transaction_log import TransactionLogKey, TransactionLogValue

Texts = tuple[str | None, str | None]
"""The texts of key and payload; None where there is nothing to print."""
Decoder = Callable[[Record], Texts]

DELETED = "<DELETE>"
_TRANSACTION_STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip


def plain_texts(record: Record) -> Texts:
    """Return key and value decoded as UTF-8."""
    return _text(record.key), _text(record.value)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", AS_JAVA)


# --- decoder classes ---


def current_decoder(name: str) -> str | None:
    """Return the current name of a decoder's Java class; None for an unknown class."""
    old = name.removeprefix(_OLD_DECODERS)
    today = _DECODERS + old if old != name else name
    return today if today in _CLASSES else None


def class_texts(*, key: str, value: str) -> Decoder:
    """Return the decoder for class names that `current_decoder` returned."""
    decode_key, decode_value = _CLASSES[key], _CLASSES[value]

    def texts(record: Record) -> Texts:
        try:
            return decode_key(record.key), decode_value(record.value)
        except StructError:
            return f"Error at offset {record.offset}, skipping. It has too few bytes for its decoder.", None

    return texts


def _number(entry: Struct) -> Callable[[bytes | None], str | None]:
    """Return a decoder of a number; it ignores the bytes that follow, as in Java. Raises StructError."""
    return lambda content: None if content is None else str(entry.unpack_from(content)[0])


_OLD_DECODERS = "kafka.serializer."
_DECODERS = "org.apache.kafka.tools.api."
_CLASSES = {
    _DECODERS + "StringDecoder": _text,
    _DECODERS + "IntegerDecoder": _number(Struct(">i")),
    _DECODERS + "LongDecoder": _number(Struct(">q")),
}


# --- __consumer_offsets, __share_group_state ---


def offsets_texts(record: Record) -> Texts:
    """Return the texts of a record of `__consumer_offsets`."""
    return _json_texts(record, _OF_OFFSETS)


def share_texts(record: Record) -> Texts:
    """Return the texts of a record of `__share_group_state`."""
    return _json_texts(record, _OF_SHARES)


_OF_OFFSETS: Mapping[int, tuple[type[Stored], type[Stored]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
}
_OF_SHARES: Mapping[int, tuple[type[Stored], type[Stored]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}


def _json_texts(record: Record, kinds: Mapping[int, tuple[type[Stored], type[Stored]]]) -> Texts:
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    try:
        version = stored_version(record.key)
        if version not in kinds:
            return f"Unknown record type {version} at offset {record.offset}, skipping.", None
        key_class, value_class = kinds[version]
        key = key_class.decode_stored(record.key)
        key_text = _json({"type": str(version), "data": message_fields(key, version)})
        if record.value is None:
            return key_text, DELETED
        value_version = stored_version(record.value)
        fields = message_fields(value_class.decode_stored(record.value), value_version)
    except DecodeError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    if value_class is GroupMetadataValue:
        open_members(fields)
    return key_text, _json({"version": str(value_version), "data": fields})


def _json(fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


# --- __transaction_state ---


def transaction_texts(record: Record) -> Texts:
    """Return the texts of a record of `__transaction_state`."""
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    try:
        version = stored_version(record.key)
        if version != 0:
            return f"unknown::version={version}", None
        key = f"transaction_metadata::transactionalId={TransactionLogKey.decode_stored(record.key).transactional_id}"
        return key, DELETED if record.value is None else _transaction(TransactionLogValue.decode_stored(record.value))
    except DecodeError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _transaction(value: TransactionLogValue) -> str:
    status = value.transaction_status
    state = _TRANSACTION_STATES[status] if 0 <= status < len(_TRANSACTION_STATES) else f"Unknown({status})"
    partitions = [
        f"{each.topic}-{partition}" for each in value.transaction_partitions or () for partition in each.partition_ids
    ]
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state},"
        f"partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )

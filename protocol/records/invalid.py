"""The one error of this package."""

from __future__ import annotations

import enum

from protocol.errors import ErrorCode, KafkaError


class Fault(enum.Enum):
    """What Kafka counts of invalid batches."""

    CRC = "crc"
    MAGIC = "magic"
    OFFSET_OR_SEQUENCE = "offset or sequence"


class InvalidBatch(KafkaError):
    """The bytes are not a batch that Kafka would accept. `code` and `message` are those of the response to a client.

    CORRUPT_MESSAGE: damaged or incomplete (a client may retry); INVALID_RECORD: complete, but not valid in the format;
    UNSUPPORTED_FOR_MESSAGE_FORMAT: a message of format v0 or v1 in place of a batch; UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE: more bytes after decompression than the caller allows.
    """

    def __init__(self, code: ErrorCode, message: str | None = None, fault: Fault | None = None) -> None:
        super().__init__(code, message)
        self.fault = fault


def unknown_magic(magic: int) -> InvalidBatch:
    """Return the error of a batch whose magic byte, 3 to 255, belongs to no format. Kafka names it as a signed number."""
    signed = magic - 256 if magic > 127 else magic
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {signed}", Fault.MAGIC)

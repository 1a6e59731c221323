"""The one error of this package."""

from __future__ import annotations

from protocol.errors import KafkaError


class InvalidBatch(KafkaError):
    """The bytes are no batch that Kafka would take. `code` and `message` are what a client is answered.

    CORRUPT_MESSAGE: damaged or cut (a client may send it again); INVALID_RECORD: whole, but not what the format says;
    UNSUPPORTED_FOR_MESSAGE_FORMAT: a message of format v0 or v1 where a batch belongs; UNSUPPORTED_COMPRESSION_TYPE;
    MESSAGE_TOO_LARGE: more bytes after decompression than the caller allows.
    """

"""Decides the codec in which a topic stores batches, and how much recompression runs on the event loop. Pure.

A codec's work grows with the plain bytes, and zstd's with the level as well: up to some ten milliseconds of work run inline,
longer work runs in a thread (`storage.log.validation.LongValidation`).

Rules: pure. Source: Kafka LogValidator, BrokerCompressionType.
"""

from __future__ import annotations

from config.topic import LogConfig
from protocol.records.batch import BatchHeader
from protocol.records.compression import Compression

# Of a batch as it comes, and of its records decompressed.
INLINE_RECOMPRESSED_BYTES = 64 * 1024
INLINE_RECOMPRESSED_PLAIN_BYTES = 512 * 1024
# From this level on a quarter of a megabyte takes zstd 50 to 90 ms, and so much less than ten.
COSTLY_ZSTD_LEVEL = 12
INLINE_COSTLY_BYTES = 16 * 1024


def target_compression(header: BatchHeader, config: LogConfig) -> Compression | None:
    """Return the codec to recompress the batch with; None when it may stay as it is."""
    target = topic_compression(config)
    if target is None or target is header.compression or (header.is_control and header.compression is Compression.NONE):
        return None
    return target


def topic_compression(config: LogConfig) -> Compression | None:
    """Return the codec in which the topic stores batches; None for the producer's."""
    wanted = config.compression_type
    if wanted == "producer":
        return None
    return Compression.NONE if wanted == "uncompressed" else Compression[wanted.upper()]


def compression_level(target: Compression, config: LogConfig) -> int | None:
    """Return the topic's level of that codec; None for a codec without levels."""
    match target:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def inline_plain_bytes(target: Compression, config: LogConfig) -> int | None:
    """Return how many bytes may be recompressed with that codec on the event loop; None when it takes no work."""
    if target is Compression.NONE:
        return None
    is_costly = target is Compression.ZSTD and config.compression_zstd_level >= COSTLY_ZSTD_LEVEL
    return INLINE_COSTLY_BYTES if is_costly else INLINE_RECOMPRESSED_PLAIN_BYTES

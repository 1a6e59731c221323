"""The codecs alone: against other libraries, cut, damaged, and bombs."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections import deque

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.records.batch import InvalidBatch
from protocol.records.compression import (
    CHUNK_BYTES,
    Compression,
    CompressionStream,
    DecompressionTooLarge,
    compress,
    decompress,
    decompress_chunks,
)
from tests.protocol.records.python_clients import kafka_codec

CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
TEXT = b"".join(b"line %d of a text\n" % number for number in range(20_000))
MAX_BYTES = 8 * 1024 * 1024

THEIRS = {
    Compression.GZIP: (kafka_codec.gzip_encode, kafka_codec.gzip_decode),
    Compression.SNAPPY: (kafka_codec.snappy_encode, kafka_codec.snappy_decode),
    Compression.LZ4: (kafka_codec.lz4_encode, kafka_codec.lz4_decode),
    Compression.ZSTD: (kafka_codec.zstd_encode, kafka_codec.zstd_decode),
}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000), st.sampled_from(tuple(Compression)))
def test_round_trip(data: bytes, codec: Compression) -> None:
    assert decompress(codec, memoryview(compress(codec, data)), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_with_another_implementation(codec: Compression) -> None:
    theirs_encode, theirs_decode = THEIRS[codec]
    assert decompress(codec, theirs_encode(TEXT), MAX_BYTES) == TEXT
    assert theirs_decode(compress(codec, TEXT)) == TEXT


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, (-1, 1, 9)), (Compression.LZ4, (1, 9, 17)), (Compression.ZSTD, (-5, 3, 22))],
)
def test_levels(codec: Compression, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), MAX_BYTES) == TEXT


FORMS = {
    "two gzip members": (Compression.GZIP, gzip.compress(TEXT) + gzip.compress(TEXT), TEXT * 2),
    "raw snappy": (Compression.SNAPPY, snappy.compress(TEXT), TEXT),
    "raw snappy of nothing": (Compression.SNAPPY, snappy.compress(b""), b""),
    "two xerial streams": (Compression.SNAPPY, compress(Compression.SNAPPY, TEXT) * 2, TEXT * 2),
    "xerial of nothing": (Compression.SNAPPY, compress(Compression.SNAPPY, b""), b""),
    "lz4 with checksums and size": (
        Compression.LZ4,
        lz4.frame.compress(TEXT, block_linked=False, content_checksum=True, block_checksum=True, store_size=True),
        TEXT,
    ),
    "lz4 of 4 MiB blocks": (
        Compression.LZ4,
        lz4.frame.compress(TEXT * 20, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        TEXT * 20,
    ),
    "zstd without a size": (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), TEXT),
    "zstd with a checksum": (Compression.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT), TEXT),
    "two zstd frames": (Compression.ZSTD, compress(Compression.ZSTD, TEXT) * 2, TEXT * 2),
    "zstd behind a skippable frame": (
        Compression.ZSTD, b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + compress(Compression.ZSTD, TEXT), TEXT,
    ),
    "zstd of one repeated byte": (Compression.ZSTD, compress(Compression.ZSTD, bytes(1_000_000)), bytes(1_000_000)),
    "zstd of noise": (Compression.ZSTD, compress(Compression.ZSTD, bytes(range(256)) * 3), bytes(range(256)) * 3),
}  # fmt: skip


@pytest.mark.parametrize(("codec", "data", "plain"), FORMS.values(), ids=FORMS)
def test_forms_that_clients_send(codec: Compression, data: bytes, plain: bytes) -> None:
    assert decompress(codec, data, MAX_BYTES) == plain


def test_zstd_streams_of_unknown_size() -> None:
    """As Java writes them: flushed block by block."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [compressor.compress(TEXT), compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), compressor.flush()]
    assert decompress(Compression.ZSTD, b"".join(parts), MAX_BYTES) == TEXT


def test_gzip_members_cost_no_more_than_their_bytes() -> None:
    """What a member leaves over is copied: whoever hands all of it to each waits a minute here."""
    many = gzip.compress(b"x", mtime=0) * 500_000
    assert len(decompress(Compression.GZIP, many, MAX_BYTES)) == 500_000
    large = gzip.compress(TEXT) * 40
    assert decompress(Compression.GZIP, large, len(TEXT) * 40) == TEXT * 40


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_refused(codec: Compression) -> None:
    data = compress(codec, TEXT[:3000])
    cuts = [*range(min(len(data), 40)), *range(len(data) - 12, len(data))]
    if codec is Compression.SNAPPY:
        cuts = [cut for cut in cuts if not 16 <= cut < 20]  # the header alone is a whole stream of nothing
    for cut in cuts:
        with pytest.raises(InvalidBatch) as caught:
            decompress(codec, data[:cut], MAX_BYTES)
        assert caught.value.code == ErrorCode.INVALID_RECORD


BEHIND_THE_END = [
    *((Compression.GZIP, more) for more in (b"\x00", b"junk", bytes(100))),
    *((Compression.GZIP, more) for more in (b"\x1f\x8b\x08" + bytes(15), b"\x1f\x8b" + bytes(50))),
    *((Compression.SNAPPY, more) for more in (b"\x00", b"\x00\x00\x01")),
    *((Compression.LZ4, more) for more in (b"\x00", b"junk", bytes(100), compress(Compression.LZ4, b""))),
    (Compression.LZ4, compress(Compression.LZ4, TEXT)),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "more"), BEHIND_THE_END)
def test_what_java_passes_over_behind_the_end_is_passed_over(codec: Compression, more: bytes) -> None:
    assert decompress(codec, compress(codec, TEXT) + more, MAX_BYTES) == TEXT


def test_what_begins_like_a_gzip_member_must_be_one() -> None:
    for more in (gzip.compress(b"x" * 99)[:-1], gzip.compress(b"x")[:-1] + b"?"):
        with pytest.raises(InvalidBatch):
            decompress(Compression.GZIP, gzip.compress(TEXT) + more, MAX_BYTES)


@pytest.mark.parametrize(
    ("codec", "more"),
    [
        (Compression.SNAPPY, bytes(4)),
        (Compression.SNAPPY, b"junkjunk"),
        (Compression.SNAPPY, b"\x82SNAPPY\x00\x00"),
        *((Compression.ZSTD, more) for more in (b"\x00", b"junk", bytes(100))),
    ],
)
def test_other_bytes_behind_the_end_are_refused(codec: Compression, more: bytes) -> None:
    with pytest.raises(InvalidBatch):
        decompress(codec, compress(codec, TEXT) + more, MAX_BYTES)


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    """Java's reader, and so every Java consumer, cannot read them."""
    with pytest.raises(InvalidBatch, match="depend"):
        decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True), MAX_BYTES)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_than_its_bound(codec: Compression) -> None:
    size = 64 * 1024 * 1024
    if codec is Compression.GZIP:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(64)), packer.flush()])
    elif codec is Compression.SNAPPY:
        block = snappy.compress(bytes(1 << 20))
        bomb = compress(codec, b"") + (len(block).to_bytes(4, "big") + block) * 64
    else:
        bomb = compress(codec, bytes(size))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge) as caught:
            deque(decompress_chunks(codec, bomb, 4 * CHUNK_BYTES), maxlen=0)
        assert tracemalloc.get_traced_memory()[1] < 16 * CHUNK_BYTES
    finally:
        tracemalloc.stop()
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("block", [b"\xff\xff\xff\xff\x07" + bytes(10), b"\xff\xff\xff\xff\xff\xff", b"", b"\x0a"])
def test_a_snappy_block_that_lies_about_its_length(block: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBatch):
            decompress(Compression.SNAPPY, block, 1 << 40)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", Compression)
def test_the_bound_is_exact(codec: Compression) -> None:
    data = compress(codec, TEXT)
    assert decompress(codec, data, len(TEXT)) == TEXT
    with pytest.raises(DecompressionTooLarge):
        decompress(codec, data, len(TEXT) - 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=60_000), max_size=6), st.sampled_from(tuple(Compression)))
def test_a_stream_makes_what_one_piece_would(pieces: list[bytes], codec: Compression) -> None:
    stream = CompressionStream(codec)
    for piece in pieces:
        stream.write(piece)
    whole, made = b"".join(pieces), stream.finish()
    assert stream.size_bytes == len(made)
    assert decompress(codec, made, len(whole)) == whole
    if codec is not Compression.ZSTD:  # whose header has the size when it is known before
        assert made == compress(codec, whole)


@pytest.mark.parametrize(
    ("codec", "levels"), [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (1, 19))]
)
def test_levels_have_an_effect(codec: Compression, levels: tuple[int, int]) -> None:
    low, high = (compress(codec, TEXT, level) for level in levels)
    assert len(high) < len(low)
    for level, made in zip(levels, (low, high), strict=True):
        assert decompress(codec, made, len(TEXT)) == TEXT
        stream = CompressionStream(codec, level)
        stream.write(TEXT)
        assert abs(len(stream.finish()) - len(made)) < 64


@pytest.mark.parametrize("level", [-131_072, 0, 3, 12, 22])
@pytest.mark.parametrize("size_bytes", [0, 1, 200, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_a_zstd_stream_takes_memory_for_what_it_gets(level: int, size_bytes: int) -> None:
    """The window is what compressor and readers make room for: 128 MiB at level 22 for who does not know the size, and
    half a second to clear it."""
    data = TEXT[:size_bytes]
    stream = CompressionStream(Compression.ZSTD, level)
    for at in range(0, size_bytes, 10_000):
        stream.write(data[at : at + 10_000])
    made = stream.finish()
    assert decompress(Compression.ZSTD, made, len(data)) == data
    assert kafka_codec.zstd_decode(made) == data
    frame = zstandard.get_frame_parameters(made)
    if size_bytes <= 64 * 1024:
        assert frame.content_size == size_bytes and frame.window_size <= max(size_bytes, 1024)
    assert frame.window_size <= 1024 * 1024


def test_the_default_level_of_lz4_is_the_fast_compressor() -> None:
    assert compress(Compression.LZ4, TEXT, 9) == compress(Compression.LZ4, TEXT) == compress(Compression.LZ4, TEXT, 0)
    assert len(compress(Compression.LZ4, TEXT, 10)) < len(compress(Compression.LZ4, TEXT, 9))


def test_a_level_far_below_zero() -> None:
    assert decompress(Compression.ZSTD, compress(Compression.ZSTD, TEXT, -131_072), len(TEXT)) == TEXT

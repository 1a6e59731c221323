from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.spark.files.batch_figures import BatchFigures, figures_of_file
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch


def batch(count: int, compression: Compression) -> bytes:
    return bytes(
        encode_batch([Record(n, 1000 + n, b"k", b"v" * 100, []) for n in range(count)], compression=compression)
    )


def test_batches_are_summed_up_by_codec_up_to_one_that_is_not_whole(tmp_path: Path) -> None:
    plain, packed = batch(3, Compression.NONE), batch(50, Compression.LZ4)
    file = tmp_path / "0.log"
    file.write_bytes(plain + packed + plain + packed[:-1])
    none, lz4 = figures_of_file(str(file))
    assert none == BatchFigures("none", 2, 6, 2 * len(plain), 2 * len(plain))
    assert lz4 == BatchFigures("lz4", 1, 50, len(packed), len(batch(50, Compression.NONE)))


@pytest.mark.parametrize("content", [b"", b"\0" * 11, b"\0" * 64])
def test_a_file_without_a_batch_has_no_figures(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_bytes(content)
    assert figures_of_file(str(file)) == []

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch
from runtime.disk.os_filesystem import OsFileSystem
from storage.segments.segment_copy import batches_of

BATCHES = [encode_batch([Record(0, 0, None, b"x" * 100)], base_offset=offset) for offset in range(4)]
BATCH_BYTES = len(BATCHES[0])


@pytest.mark.parametrize("left_bytes", [0, BATCH_BYTES, BATCH_BYTES + 10, 3 * BATCH_BYTES - 1])
def test_a_file_that_is_cut_while_it_is_read_has_no_more_batches(tmp_path: Path, left_bytes: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(BATCHES))
    file = OsFileSystem().open(str(path), writable=False)
    try:
        batches = batches_of(file, str(path), BATCH_BYTES)
        assert next(batches)[2].base_offset == 0
        os.truncate(path, left_bytes)
        with pytest.raises(InvalidBatch, match="has become shorter"):
            list(batches)
    finally:
        file.close()


def test_batches_that_are_larger_than_a_read_come_whole(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(BATCHES))
    file = OsFileSystem().open(str(path), writable=False)
    try:
        found = [
            (header.base_offset, bytes(buffer[at : at + header.size_bytes]))
            for buffer, at, header in batches_of(file, str(path), 64)
        ]
    finally:
        file.close()
    assert found == list(enumerate(BATCHES))

"""Reads from a query's checkpoint how far it has come, for PySpark before 4.2, which does not say it to a source.

Spark writes a file for each batch into `offsets/` below the checkpoint location, before the batch runs: a version, a line of
metadata, and a line of JSON for each source of the query. The newest one is where the next batch begins, or what is done again.

Rules: the file system is any that pyarrow knows (a local folder, hdfs, s3, gs). A line belongs to this source when its
topics do; of several such lines, as two sources on the same topics have, the later offset of each partition counts: a limit
must not end before the start.
Source: Spark OffsetSeqLog, HDFSMetadataLog.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyarrow import fs

from barnabas.spark.reading.stream_offsets import StreamOffsets

_VERSION = "v1"
_FIRST_SOURCE = 2  # lines in front of it: version, metadata


def newest_offsets(location: str, belongs: Callable[[str], bool]) -> StreamOffsets | None:
    """The newest offsets in the checkpoint at `location`, of topics that `belongs` says yes to. None for a query that has not
    run yet. Raises OSError, ValueError."""
    if "://" in location or location.startswith("file:"):
        filesystem, folder = fs.FileSystem.from_uri(location)
    else:
        filesystem, folder = fs.LocalFileSystem(), location
    selector = fs.FileSelector(f"{folder.rstrip('/')}/offsets", allow_not_found=True)
    batches = {
        int(each.base_name): each.path for each in filesystem.get_file_info(selector) if each.base_name.isdigit()
    }
    if not batches:
        return None
    with filesystem.open_input_stream(batches[max(batches)]) as file:
        return parse_batch(file.read().decode(), belongs)


def parse_batch(text: str, belongs: Callable[[str], bool]) -> StreamOffsets | None:
    """The offsets in one file of `offsets/`. Raises ValueError."""
    lines = text.splitlines()
    if not lines or lines[0] != _VERSION:
        raise ValueError(f"a checkpoint of version {lines[0] if lines else 'none'!r} is not known")
    found: StreamOffsets | None = None
    for line in lines[_FIRST_SOURCE:]:
        stored = json.loads(line) if line.startswith("{") else None
        if not isinstance(stored, dict) or not all(
            isinstance(each, dict) and belongs(name) for name, each in stored.items()
        ):
            continue
        one = StreamOffsets.from_json(stored)
        if found is None:
            found = one
        else:
            later = {key: max(offset, found.offsets.get(key, 0)) for key, offset in one.offsets.items()}
            found = StreamOffsets(found.offsets | later, found.ids | one.ids)
    return found

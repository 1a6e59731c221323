"""Where the store of a broker without ZooKeeper is: in the first of `log.dirs`, unless another one holds it.

A new store in another directory would hide every topic, and what its topics' settings keep. So a broker whose store may be in
a directory that is offline does not start.

Rules: blocking; called at the start.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.embedded import FILE_NAME
from runtime.filesystem import FileSystem
from storage.log_directory import DirectoryRefused


def store_directory(paths: Sequence[str], online: Collection[str], filesystem: FileSystem) -> str:
    """The one of `paths`, which are all of `log.dirs`. Raises DirectoryRefused."""
    for path in paths:
        if path not in online:
            raise DirectoryRefused(
                f"The log directory {path} is offline, and may hold {FILE_NAME}, which names the topics and their settings. "
                f"Mend or mount it, or put a copy of {FILE_NAME} into another log directory and take {path} out of log.dirs."
            )
        if filesystem.exists(f"{path}/{FILE_NAME}"):
            return path
        if not any(filesystem.exists(f"{other}/{FILE_NAME}") for other in online):
            return path
    raise AssertionError("one of the directories holds the store")

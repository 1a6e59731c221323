"""The stored credentials of this broker's session, so that the next process on the directory can close it. Pure.

    0                      version of the format
    0x1000a2b3c4d0001      session id
    6f2a...                password, hexadecimal

After kill -9 a session exists until its timeout, and with it the broker's node: no broker can register that id meanwhile. The
next process with the directory's lock resumes the session with this file and closes it.

Rules: the file is readable only by its owner, since its reader could act as the broker. It is durable before the session is
used, and removed when the session was closed. It is a file of the log directory, not a folder: Apache Kafka
reads an unknown folder there as a partition. An invalid file is ignored: its session ends by its
timeout.
"""

from __future__ import annotations

import logging
import posixpath
from typing import Final, Protocol

from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.session import Credentials
from runtime.disk.disk_queue import DiskQueue
from runtime.disk.filesystem import FileSystem

FILE_NAME: Final = "barnabas-zookeeper-session"
FORMAT_VERSION: Final = "0"

logger = logging.getLogger(__name__)


class SessionFile(Protocol):
    """Stores credentials durably. All methods raise OSError."""

    async def load(self) -> Credentials | None: ...

    async def save(self, credentials: Credentials) -> None: ...

    async def remove(self) -> None: ...


class LogDirectorySessionFile:
    """The file in `directory`, which the caller has locked; `queue` runs blocking calls."""

    def __init__(self, directory: str, filesystem: FileSystem, queue: DiskQueue) -> None:
        self._directory = directory
        self._path = posixpath.join(directory, FILE_NAME)
        self._filesystem = filesystem
        self._queue = queue

    async def load(self) -> Credentials | None:
        def read() -> bytes | None:
            return self._filesystem.read_bytes(self._path) if self._filesystem.exists(self._path) else None

        content = await self._queue.run(read)
        if content is None:
            return None
        try:
            return decode(content)
        except ValueError as error:
            logger.warning("session file unreadable, ignored: path=%s error=%s", self._path, error)
            return None

    async def save(self, credentials: Credentials) -> None:
        content = encode(credentials)
        await self._queue.run(lambda: self._filesystem.replace(self._path, content, is_private=True))

    async def remove(self) -> None:
        def unlink() -> None:
            self._filesystem.unlink(self._path)
            self._filesystem.sync_directory(self._directory)

        await self._queue.run(unlink)


def encode(credentials: Credentials) -> bytes:
    session_id = credentials.session_id & 0xFFFFFFFFFFFFFFFF
    return f"{FORMAT_VERSION}\n{session_id:#x}\n{credentials.password.hex()}\n".encode()


def decode(content: bytes) -> Credentials:
    """Raises ValueError."""
    lines = content.decode("ascii").split("\n")
    if len(lines) != 4 or lines[0] != FORMAT_VERSION or lines[3]:
        raise ValueError("it has another format")
    session_id, password = int(lines[1], 16), bytes.fromhex(lines[2])
    if not 0 < session_id < 1 << 64 or len(password) != wire.PASSWORD_BYTES:
        raise ValueError("a number is out of bounds")
    return Credentials(session_id - (1 << 64) if session_id >> 63 else session_id, password)

"""The file of a tree: its nodes, its sessions and its newest zxid, in one SQLite database.

Rules:
- Every method blocks: disk queue only, one call at a time. What `commit` has returned is on the disk.
- A file of an earlier format is migrated when it is opened, in one transaction; one of a later format is refused.
- The file is in a log directory, not in a folder of it: Apache Kafka reads an unknown folder there as a partition.

Formats: 1 has nodes without access lists, and a counter of sessions; 2 has access lists, their versions, the last change of the
children, and sessions.

Why WAL with synchronous=FULL: a commit is one append and one fsync (a rollback journal takes three and a file
creation), and it is durable, as a write of an ensemble is. Locking is exclusive, so a second process on the file fails
immediately and no shared-memory file is needed. The log is as long from the start as it is between two checkpoints: the flush
of a write that does not lengthen its file takes a twentieth of the time, since the file system's journal has no part in it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final

from metadata.store.node_acls import decoded, encoded
from metadata.store.node_map import Node, Nodes
from metadata.store.node_tree import NodeTree, Staged, StoredSession
from metadata.store.port import parent_of

FILE_NAME: Final = "barnabas-store.sqlite"
FORMAT_VERSION: Final = 2

_SCHEMA: Final = (
    """CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL, ephemeral_owner INTEGER NOT NULL,
    children_created INTEGER NOT NULL, num_children INTEGER NOT NULL,
    pzxid INTEGER NOT NULL DEFAULT 0, aversion INTEGER NOT NULL DEFAULT 0, acl TEXT
) WITHOUT ROWID""",
    "CREATE TABLE fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
)
_SESSIONS: Final = (
    "CREATE TABLE session (session_id INTEGER PRIMARY KEY, password BLOB NOT NULL, timeout_ms INTEGER NOT NULL)"
)
# Format 1 says nothing of its sessions: they get a timeout, and a password that nobody knows.
_FROM_FORMAT_1: Final = (
    "ALTER TABLE node ADD COLUMN pzxid INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE node ADD COLUMN aversion INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE node ADD COLUMN acl TEXT",
    _SESSIONS,
    "INSERT INTO session SELECT DISTINCT ephemeral_owner, randomblob(16), 6000 FROM node WHERE ephemeral_owner != 0",
    "DELETE FROM fact WHERE name = 'session'",
)
# In KiB. The tree is in memory already, and commits write pages that are neighbours: SQLite's own 2 MB are useless.
_CACHE: Final = "cache_size=-256"
_PUT_NODE: Final = "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# A log of 4 MB is as long as SQLite's is when it is begun anew, and its cache is smaller. Each row is in memory as a whole.
_FILL_LOG: Final = "INSERT INTO node VALUES (?, zeroblob(40000), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL)"
_FILL_LOG_ROWS: Final = 100
_PUT_FACT: Final = "INSERT OR REPLACE INTO fact VALUES (?, ?)"
_PUT_SESSION: Final = "INSERT OR REPLACE INTO session VALUES (?, ?, ?)"


class StoreFileError(Exception):
    """The file cannot be used: another process has it, it is damaged, or a newer release wrote it."""


class StoreFile:
    """Opens or creates the file. Raises StoreFileError."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            # The queue runs one job at a time, on any thread: the connection is never used concurrently.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise StoreFileError(f"cannot open the store {path}: {error}") from error
        try:
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", _CACHE):
                self._connection.execute(f"PRAGMA {pragma}")
            version = self._prepare()
            if version == FORMAT_VERSION:
                self._lengthen_log()
        except (sqlite3.Error, OSError) as error:
            self._connection.close()
            raise StoreFileError(f"cannot open the store {path}: {error}") from error
        if version != FORMAT_VERSION:
            self._connection.close()
            raise StoreFileError(f"the store {path} has format {version}, this release reads format {FORMAT_VERSION}")

    def load(self) -> NodeTree:
        """Load the tree. Raises StoreFileError."""
        try:
            nodes = Nodes()
            for path, *values in self._connection.execute("SELECT * FROM node ORDER BY path"):  # parents first
                values[-1] = decoded(values[-1])
                nodes.put(path, Node(*values))
            sessions = [StoredSession(*row) for row in self._connection.execute("SELECT * FROM session")]
            [(zxid,)] = self._connection.execute("SELECT coalesce(max(value), 0) FROM fact WHERE name = 'zxid'")
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreFileError(f"cannot read the store {self._path}: {error}") from error
        return NodeTree(nodes, zxid, sessions)

    def commit(self, batch: Sequence[Staged]) -> None:
        """Write the transactions, all or none. Raises OSError: ENOSPC when there is no room."""
        changed: dict[str, Node | None] = {}
        for staged in batch:
            changed.update(staged.nodes)
        rows = [(path, *node[:-1], encoded(node.acl)) for path, node in changed.items() if node is not None]
        with self._transaction() as connection:
            connection.executemany("DELETE FROM node WHERE path = ?", [(p,) for p, n in changed.items() if n is None])
            connection.executemany(_PUT_NODE, rows)
            for staged in batch:
                if (opened := staged.opened_session) is not None:
                    connection.execute(_PUT_SESSION, (opened.session_id, opened.password, opened.timeout_ms))
                if staged.closed_session_id is not None:
                    connection.execute("DELETE FROM session WHERE session_id = ?", (staged.closed_session_id,))
            connection.execute(_PUT_FACT, ("zxid", batch[-1].zxid))

    def copy_to(self, path: str) -> None:
        """Write a copy of the file as it is now, in the place of one that is there. Raises OSError."""
        unfinished = f"{path}.tmp"
        try:
            with closing(sqlite3.connect(unfinished)) as target:
                self._connection.backup(target)
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"the store {self._path} was not copied to {path}: {error}") from error
        os.replace(unfinished, path)

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> int:
        """Create what a new file needs, migrate an old one. Returns the format after that. Raises sqlite3.Error, OSError."""
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        facts = dict(self._connection.execute("SELECT name, value FROM fact")) if "fact" in tables else {}
        version: int = facts.get("format", 1) if "node" in tables else 0
        if version not in (0, 1):
            return version
        with self._transaction() as connection:
            if version == 0:
                for statement in (*_SCHEMA, _SESSIONS):
                    connection.execute(statement)
            else:
                for statement in _FROM_FORMAT_1:
                    connection.execute(statement)
                self._derive_pzxids()
            connection.execute(_PUT_FACT, ("format", FORMAT_VERSION))
        return FORMAT_VERSION

    def _derive_pzxids(self) -> None:
        """Of format 1, as far as the nodes that there are tell: the newest of a node and its children."""
        pzxids: dict[str, int] = {}
        for path, czxid in self._connection.execute("SELECT path, czxid FROM node"):
            for each in (path, parent_of(path)):
                pzxids[each] = max(pzxids.get(each, 0), czxid)
        self._connection.executemany(
            "UPDATE node SET pzxid = ? WHERE path = ?", [(pzxid, path) for path, pzxid in pzxids.items()]
        )

    def _lengthen_log(self) -> None:
        """Write a large transaction, and take it back: its pages stay in the log, to be overwritten. Raises sqlite3.Error."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(_FILL_LOG, [(str(number),) for number in range(_FILL_LOG_ROWS)])
        except sqlite3.Error as error:
            if not _is_full(error):
                raise
        finally:
            if self._connection.in_transaction:  # SQLite may have ended it
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Raises OSError, and nothing is written then."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                with suppress(sqlite3.Error):  # the first error is reported
                    connection.execute("ROLLBACK")
            code = errno.ENOSPC if _is_full(error) else errno.EIO
            raise OSError(code, f"the store {self._path} refused a commit: {error}") from error


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL

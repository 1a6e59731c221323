"""The file: what is read back, formats, and what is refused."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from metadata.store.node_tree import NodeTree, StoredSession
from metadata.store.port import OPEN_ACL, Acl, Create, Delete, Operation, SetData
from metadata.store.store_file import FORMAT_VERSION, StoreFile, StoreFileError

SECURE = (Acl(31, "sasl", "broker"), Acl(1, "world", "anyone"))
SESSION = StoredSession(0x7F00000000000001, b"0123456789abcdef", 6_000)


def committed(file: StoreFile, tree: NodeTree, *operations: Operation, session_id: int = 0) -> None:
    staged = tree.stage(operations, session_id=session_id, now_ms=7)
    file.commit([staged])
    tree.apply(staged)


def test_a_tree_is_read_back_whole(tmp_path: Path) -> None:
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        tree = file.load()
        assert (dict(tree.nodes).keys(), tree.zxid, tree.sessions) == ({"/"}, 0, {})
        opened = [tree.stage_session(each) for each in (SESSION, StoredSession(7, b"", 1))]
        file.commit([*opened, closed := tree.stage_session_end(7)])
        for staged in (*opened, closed):
            tree.apply(staged)
        committed(
            file, tree, Create("/a", b"\0x", acl=SECURE), Create("/a/b", ephemeral=True), session_id=SESSION.session_id
        )
        committed(file, tree, SetData("/a", b"y"), Create("/a/c"), Delete("/a/c"))
        committed(file, tree, Create("/p"), Create("/p/state", b"s"), Create("/q", acl=()))
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        loaded = file.load()
    assert dict(loaded.nodes) == dict(tree.nodes)
    assert (loaded.zxid, loaded.sessions) == (6, {SESSION.session_id: SESSION})
    assert loaded.node("/a").acl == SECURE
    assert loaded.node("/p").acl is OPEN_ACL
    assert loaded.nodes.ephemerals == {"/a/b": SESSION.session_id}


def write_format_1(path: Path) -> None:
    """As the release that had that format wrote it: /a with two children that were made later, one of them ephemeral."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            PRAGMA journal_mode=WAL;
            CREATE TABLE node (
                path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, czxid INTEGER NOT NULL,
                mzxid INTEGER NOT NULL, ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL,
                ephemeral_owner INTEGER NOT NULL, children_created INTEGER NOT NULL, num_children INTEGER NOT NULL
            ) WITHOUT ROWID;
            CREATE TABLE fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
            INSERT INTO fact VALUES ('format', 1), ('session', 3), ('zxid', 9);
            INSERT INTO node VALUES
                ('/', x'', 0, 0, 0, 0, 0, 0, 1, 1),
                ('/a', x'616263', 2, 1, 6, 1000, 2000, 0, 3, 2),
                ('/a/b', x'', 0, 2, 2, 1000, 1000, 0, 0, 0),
                ('/a/e', x'78', 0, 5, 5, 1000, 1000, 3, 0, 0);
            """
        )


def test_format_1_is_migrated(tmp_path: Path) -> None:
    write_format_1(tmp_path / "store")
    for _ in range(2):  # the second time it is of the new format
        with closing(StoreFile(str(tmp_path / "store"))) as file:
            tree = file.load()
        assert tree.zxid == 9
        pzxids = {path: node.pzxid for path, node in tree.nodes.items()}
        assert pzxids == {"/": 1, "/a": 5, "/a/b": 2, "/a/e": 5}
        a = tree.node("/a")
        assert (a.data, a.version, a.mzxid, a.stat.cversion, a.aversion, a.acl) == (b"abc", 2, 6, 4, 0, OPEN_ACL)
        assert tree.nodes.ephemerals == {"/a/e": 3}
        assert [(each.session_id, len(each.password), each.timeout_ms) for each in tree.sessions.values()] == [
            (3, 16, 6_000)
        ]


def test_a_migration_that_fails_leaves_format_1(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_format_1(path)
    with closing(sqlite3.connect(path)) as connection:  # a table that the last step cannot make
        connection.execute("CREATE TABLE session (other)")
        before = list(connection.iterdump())
    with pytest.raises(StoreFileError, match="session"):
        StoreFile(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before


def test_a_later_format_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    StoreFile(str(path)).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE fact SET value = ? WHERE name = 'format'", (FORMAT_VERSION + 1,))
        connection.execute("ALTER TABLE node ADD COLUMN other")
        connection.commit()
    with pytest.raises(
        StoreFileError, match=f"has format {FORMAT_VERSION + 1}, this release reads format {FORMAT_VERSION}"
    ):
        StoreFile(str(path))


def test_a_commit_that_finds_no_room_leaves_the_one_before(tmp_path: Path) -> None:
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        tree = file.load()
        committed(file, tree, Create("/a"))
        [(pages,)] = file._connection.execute("PRAGMA page_count")
        file._connection.execute(f"PRAGMA max_page_count={pages}")
        staged = tree.stage([SetData("/a", bytes(100_000))], session_id=0, now_ms=8)
        with pytest.raises(OSError, match="database or disk is full") as raised:
            file.commit([staged])
        assert raised.value.errno == errno.ENOSPC
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        assert file.load().node("/a").version == 0


def test_a_write_does_not_lengthen_the_log(tmp_path: Path) -> None:
    """A flush that lengthens a file waits for the file system's journal."""
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        log, tree = tmp_path / "store-wal", file.load()
        before_bytes = log.stat().st_size
        for number in range(100):
            committed(file, tree, Create(f"/{number}", bytes(1_000)))
        assert log.stat().st_size == before_bytes
    with closing(StoreFile(str(tmp_path / "store"))) as file:
        assert len(file.load().nodes) == 101  # and what filled the log is nowhere

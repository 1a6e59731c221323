"""The data directories of several brokers, and how a lone broker's data becomes theirs, with a crash after each step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from barnabas.supervisor.directories import DataDirectories
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_directory import DirectoryRefused, LogDirectory
from tests.doubles.file_system import Call, ControlledFileSystem, fails

STORE = "barnabas-store.sqlite"
META = "#\nbroker.id=7\nversion=0\ncluster.id=c1\n"
FILES = {
    "a/meta.properties": META,
    "a/orders-0/00000000000000000000.log": "records",
    f"a/{STORE}": "tree",
    f"a/{STORE}-wal": "changes",
    "b/meta.properties": META,
    "b/orders-1/00000000000000000000.log": "more",
}
MOVED = {
    "a/broker_0/meta.properties": META,
    "a/broker_0/orders-0/00000000000000000000.log": "records",
    f"a/barnabas_store/{STORE}": "tree",
    f"a/barnabas_store/{STORE}-wal": "changes",
    "b/broker_0/meta.properties": META,
    "b/broker_0/orders-1/00000000000000000000.log": "more",
}


class Crash(BaseException):
    """The process ends here."""


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def take(root: Path, count: int = 3, files: OsFileSystem | None = None, *, has_store: bool = True) -> DataDirectories:
    directories = DataDirectories(files or OsFileSystem(), [str(root / "a"), f"{root}/b/"], has_store=has_store)
    directories.take(count)
    return directories


def convert(root: Path, files: OsFileSystem | None = None, *, has_store: bool = True) -> DataDirectories:
    directories = take(root, files=files, has_store=has_store)
    directories.move(directories.moves())
    return directories


def test_a_lone_brokers_data_becomes_that_of_the_first_broker(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    directories = convert(tmp_path)
    assert tree(tmp_path) == MOVED
    assert directories.first_broker().broker_id == 7
    assert directories.moves() == [], "nothing is left to do"


def test_what_is_no_lone_brokers_stays(tmp_path: Path) -> None:
    files = {"a/security/broker.properties": "x", "b/broker1/meta.properties": META, "b/notes.txt": ""}
    write(tmp_path, files)
    assert take(tmp_path).moves() == []


def test_with_a_zookeeper_only_folders_move(tmp_path: Path) -> None:
    write(tmp_path, {"a/meta.properties": META, "a/orders-0/x": "y"})
    convert(tmp_path, has_store=False)
    assert tree(tmp_path) == {"a/broker_0/meta.properties": META, "a/broker_0/orders-0/x": "y"}


def test_a_store_of_another_disk_is_copied(tmp_path: Path) -> None:
    write(tmp_path, {"a/meta.properties": META, "b/meta.properties": META, f"b/{STORE}": "tree"})
    convert(tmp_path)
    assert tree(tmp_path) == {
        "a/broker_0/meta.properties": META, "b/broker_0/meta.properties": META, f"a/barnabas_store/{STORE}": "tree",
    }  # fmt: skip


def crashes_after(steps: int) -> ControlledFileSystem:
    """A file system that ends the process after so many changes."""
    done: list[str] = []

    def crash(call: Call) -> object:
        if len(done) == steps:
            raise Crash
        result = call.proceed()
        done.append(call.path)
        return result

    files = ControlledFileSystem()
    files.on("rename unlink replace make_directory sync_directory", "*", crash)
    return files


@pytest.mark.parametrize("store_in", ["a", "b"])
def test_a_crash_after_any_step_is_gone_on_from(tmp_path: Path, store_in: str) -> None:
    given = {name.replace(f"a/{STORE}", f"{store_in}/{STORE}"): content for name, content in FILES.items()}
    for steps in range(100):
        root = tmp_path / str(steps)
        write(root, given)
        before = take(root, files=crashes_after(steps))
        try:
            before.move(before.moves())
        except Crash:
            before.release()
            convert(root).release()
            assert tree(root) == MOVED
        else:
            assert steps > 8, "there were steps to crash after"
            assert tree(root) == MOVED
            return
    pytest.fail("it never ends")


def test_a_lone_broker_is_refused_from_the_first_step_on(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    before = take(tmp_path, files=crashes_after(1))
    with pytest.raises(Crash):
        before.move(before.moves())
    before.release()
    with pytest.raises(DirectoryRefused, match=r"has the data of 1 broker .*: barnabas start --brokers 1, with"):
        LogDirectory(OsFileSystem(), str(tmp_path / "a")).lock()


def test_fewer_brokers_than_there_are_and_a_second_command_are_refused(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "a" / f"broker_{number}").mkdir(parents=True)
    with pytest.raises(DirectoryRefused, match=r"has the data of 3 brokers, .*: barnabas start --brokers 3, with"):
        take(tmp_path, 2)
    first = take(tmp_path, 4)
    with pytest.raises(
        DirectoryRefused, match=rf"Failed to acquire the lock .*/a/.lock: .* is used by process {os.getpid()} "
    ):
        take(tmp_path, 4)
    with pytest.raises(DirectoryRefused, match="barnabas start --brokers 3"):
        LogDirectory(OsFileSystem(), str(tmp_path / "a")).lock()
    first.release()


def test_a_running_lone_broker_keeps_its_directory(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    lone = LogDirectory(OsFileSystem(), str(tmp_path / "b"))
    lone.lock()
    with pytest.raises(DirectoryRefused, match=r"Failed to acquire the lock .*/b/.lock"):
        take(tmp_path)
    lone.unlock()
    assert tree(tmp_path) == FILES


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {"a/meta.properties": META},
            "contains the cluster id c1, but no log directory contains barnabas-store.sqlite",
        ),
        ({**FILES, f"a/barnabas_store/{STORE}": "another tree"}, "are both there: keep the one with the data"),
        ({**FILES, "a/broker_0/orders-0/x": "y"}, "are both there: keep the one with the data"),
    ],
)
def test_data_that_cannot_move_stays(tmp_path: Path, files: dict[str, str], line: str) -> None:
    write(tmp_path, files)
    directories = take(tmp_path)
    with pytest.raises(DirectoryRefused, match=line):
        directories.moves()
    assert tree(tmp_path) == files


def test_a_directory_that_is_offline_keeps_nobody_from_starting_but_a_move_from_being_made(tmp_path: Path) -> None:
    files = ControlledFileSystem()
    files.on("list_directory", f"{tmp_path}/b", fails(errno.EIO))
    write(tmp_path, {"a/broker_0/meta.properties": META, f"a/barnabas_store/{STORE}": "tree", "b/x": ""})
    directories = take(tmp_path, files=files)
    assert directories.moves() == []
    directories.release()
    write(tmp_path, {"a/orders-9/x": "y", "a/meta.properties": META})
    (tmp_path / "a/broker_0/meta.properties").unlink()
    with pytest.raises(OSError, match="Input/output error"):
        take(tmp_path, files=files).moves()

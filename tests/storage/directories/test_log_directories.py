"""What a start finds in the log directories: disks that do not answer, and folders that are nobody's."""

from __future__ import annotations

import errno
import random
import re
from pathlib import Path

import pytest

from config.topic import LogConfig
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_directory import DirectoryRefused
from storage.directories.log_manager import LogManager
from tests.doubles.clock import ManualClock
from tests.doubles.file_system import ControlledFileSystem, fails
from tests.storage.directories.test_log_manager import TOPIC_ID, broker, files
from tests.storage.logs import NOW_MS, SETTINGS, append

UNIQUE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "how",
    ["a file", "a dangling link", "meta.properties is a folder", "it cannot be read", "EIO", "it cannot be written"],
)
async def test_a_directory_that_cannot_be_opened_is_offline_and_the_others_serve(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    meta = b / "meta.properties"
    filesystem = ControlledFileSystem()
    if how == "a file":
        b.write_bytes(b"x")
    elif how == "a dangling link":
        b.symlink_to(tmp_path / "nowhere")
    elif how == "meta.properties is a folder":
        meta.mkdir(parents=True)
    elif how == "it cannot be read":
        filesystem.on("read_bytes", meta, fails(errno.EACCES))
    elif how == "EIO":
        filesystem.on("read_bytes", meta, fails(errno.EIO))
    else:
        filesystem.on("replace", meta, fails(errno.EROFS))
    async with broker(a, b, filesystem=filesystem) as one:
        assert (one.logs.online_directories, one.logs.offline_directories) == ([str(a)], [str(b)])
        assert not one.logs.offline_since_ms, "nobody knows since when"
        await append(await one.logs.log_for("t", 0, TOPIC_ID), "x")
    assert f"log directory offline: directory={b} " in caplog.text
    with pytest.raises(DirectoryRefused, match=f"None of the log directories can be used: {b} "):
        async with broker(b, filesystem=filesystem):
            pass
    if b.is_dir():
        lock = OsFileSystem().lock(str(b / ".lock"))
        assert lock is not None
        lock.release()


@pytest.mark.parametrize(
    "name",
    [
        "please-do-not-delete", "backup-delete", "t-0-delete", "t-0.-delete", "t-0.backup-delete", f"t.{UNIQUE}-delete",
        "my-future", "t-0-future", "t-0.-future", "a-stray", "t-0-stray", f"t-99999999999.{UNIQUE}-delete-", "t-99999999999",
        "t-2147483648", "t-+1", ".snapshot-1x",
    ],
)  # fmt: skip
async def test_only_folders_that_a_broker_made_are_set_aside_removed_or_served(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").write_bytes(b"x")
    with pytest.raises(DirectoryRefused, match=re.escape(f"Found directory {tmp_path / name}: ")):
        async with broker(tmp_path):
            pass
    assert (tmp_path / name / "precious").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_start_that_is_refused_leaves_every_directory_as_after_a_clean_stop(tmp_path: Path, name: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a, b) as one:
        for partition in range(4):
            log = await one.logs.log_for("t", partition, TOPIC_ID)
            await append(log, "x")
            log.high_watermark = 1
    before = files(a), files(b)
    assert ".kafka_cleanshutdown" in before[0] and "t 0 1" in before[0]["recovery-point-offset-checkpoint"].decode()
    (tmp_path / name / "stuff").mkdir()
    with pytest.raises(DirectoryRefused, match=f"{name}/stuff"):
        async with broker(a, b):
            pass
    assert (files(a), files(b)) == before


async def test_directories_are_told_from_the_root_and_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Apache Kafka; who moves a log has to name its directory so."""
    monkeypatch.chdir(tmp_path)

    def logs_over(*directories: str) -> LogManager:
        return LogManager(
            settings=SETTINGS,
            directories=directories,
            config_of=lambda topic: LogConfig.from_settings(SETTINGS, {}),
            filesystem=OsFileSystem(),
            disk=OsDisk(),
            clock=ManualClock(NOW_MS),
            randomness=random.Random(1),
            on_directory_failed=lambda path, error: None,
        )

    assert logs_over("a", "./b", f"{tmp_path}//c/", "/").paths == [f"{tmp_path}/{name}" for name in "abc"] + ["/"]
    for directories in (("a", "a"), ("a", f"{tmp_path}//a/")):
        with pytest.raises(DirectoryRefused, match=f"log.dirs names {tmp_path}/a twice"):
            logs_over(*directories).lock()
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    logs = logs_over("a", "link")
    with pytest.raises(DirectoryRefused, match=f"using {tmp_path}/link, or log.dirs names it twice"):
        logs.lock()
    logs.abandon()


async def test_two_folders_of_one_partition_are_refused(tmp_path: Path) -> None:
    """Whichever were served, the records of the other would be hidden."""
    async with broker(tmp_path) as one:
        await append(await one.logs.log_for("t", 0, TOPIC_ID), "a")
    (tmp_path / "t-00").mkdir()
    with pytest.raises(DirectoryRefused, match="t-0 is in two folders: "):
        async with broker(tmp_path):
            pass
    (tmp_path / "t-00").rmdir()
    async with broker(tmp_path) as two:
        assert two.logs.logs["t", 0].log_end_offset == 1


WHOLE_META = "#\n#Sat Nov 21 07:40:59 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=c\n"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n#\n", b"garbage", bytes(40), b"\xff\xfe\x00garbage=\xc3", b"version=0\n", b"version=0\ncluster.id=c\n",
        b"broker.id=1\n", b"broker.id=1\ncluster.id=c\n", b"broker.id=1\nversion=\n", b"broker.id=1\nversion=00\n",
        b"version=0\nbroker.id=\ncluster.id=c\n", b"version=0\nbroker.id=one\n", b"version=0\nbroker.id=-1\n",
        b"version=0\nbroker.id=1\ncluster.id=\n", b"version=0\nbroker.id=1\\u00zz\n",
    ],
)  # fmt: skip
async def test_a_meta_properties_that_does_not_say_whose_data_this_is_stops_the_start(
    tmp_path: Path, content: bytes
) -> None:
    """Taken for a new directory's, it would make the broker another one, for good. The others' are no substitute."""
    a, meta = tmp_path / "a", tmp_path / "b" / "meta.properties"
    async with broker(a, tmp_path / "b"):
        pass
    meta.write_bytes(content)
    with pytest.raises(DirectoryRefused, match=f"^{meta} is damaged: .*version=0, broker.id=.* cluster.id="):
        async with broker(a, tmp_path / "b"):
            pass
    assert meta.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"version=0\nbroker.id=1\n", b"#\nbroker.id = 1\r\nversion : 0\r\n", b"version=0\nbroker.id=1\ncluster.id=c\n"],
)
async def test_a_meta_properties_of_any_apache_kafka_is_taken(tmp_path: Path, content: bytes) -> None:
    """Before 0.10.1 there was no cluster.id. Whatever Java reads is read."""
    (tmp_path / "meta.properties").write_bytes(content)
    async with broker(tmp_path):
        written = (tmp_path / "meta.properties").read_text().splitlines()
        assert {"version=0", "broker.id=1", "cluster.id=c"} <= {line.replace(" ", "") for line in written}


async def test_a_meta_properties_of_a_broker_without_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=c\n")
    with pytest.raises(DirectoryRefused, match=r"its version is 1, that of a broker without ZooKeeper"):
        async with broker(tmp_path):
            pass


async def test_a_refusal_of_the_identity_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    (b / "meta.properties").write_text(WHOLE_META.replace("broker.id=1", "broker.id=1001"))
    with pytest.raises(DirectoryRefused) as refused:
        async with broker(a, b, broker_id=7):
            pass
    said = str(refused.value)
    assert said.startswith(f"The configured broker.id 7 does not match 1001, which {b / 'meta.properties'} holds.")
    assert "leave broker.id unset, or -1" in said
    assert "broker.id.generation.enable=false" in said
    with pytest.raises(DirectoryRefused) as refused:
        async with broker(a, b, broker_id=1001, cluster_id="other"):
            pass
    said = str(refused.value)
    assert said.startswith(f"The cluster id other does not match c, which {b / 'meta.properties'} holds")
    assert "other is that of barnabas-store.sqlite in log.dirs" in said

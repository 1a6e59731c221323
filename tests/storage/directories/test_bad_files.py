"""Damaged, missing, foreign and forbidden files in a data directory: a broker starts and serves what is there, or says
what is wrong with which file. It never starts for ever, and loses nothing in silence."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.robustness.process import BrokerProcess, MiB, NotStarted
from tests.storage.directories.bad_files import (
    DAMAGES,
    Reading,
    Records,
    append_one,
    make_directory,
    read_all,
    wait_for_leaders,
)

pytestmark = pytest.mark.timeout(180)

KAFKA_STORAGE_ERROR = 56
MAX_RSS_BYTES = 300 * MiB
KINDS = {
    "log-first": ("*.log", 0),
    "log-middle": ("*.log", 2),
    "log-last": ("*.log", -1),
    "index-first": ("*.index", 0),
    "index-last": ("*.index", -1),
    "timeindex-first": ("*.timeindex", 0),
    "timeindex-last": ("*.timeindex", -1),
    "txnindex": ("*.txnindex", 0),
    "snapshot-middle": ("*.snapshot", 1),
    "snapshot-last": ("*.snapshot", -1),
    "epochs": ("leader-epoch-checkpoint", 0),
    "metadata": ("partition.metadata", 0),
    "untouched": ("", 0),
}
"""A topic of each: which of its files is damaged."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Records]:
    return make_directory(tmp_path_factory.mktemp("original"), list(KINDS))


@pytest.fixture
def data(original: tuple[Path, Records], tmp_path: Path) -> Path:
    shutil.copytree(original[0], tmp_path / "data")
    return tmp_path / "data"


def damaged_file(data: Path, kind: str) -> Path | None:
    pattern, at = KINDS[kind]
    return sorted((data / f"{kind}-0").glob(pattern))[at] if pattern else None


def said(broker: BrokerProcess, name: str) -> list[str]:
    """Warnings and errors that name a file or folder."""
    return [
        line for line in broker.log.splitlines() if name in line and ("level=warn" in line or "level=error" in line)
    ]


def is_said(broker: BrokerProcess, topic: str) -> bool:
    return bool(said(broker, f"{topic}-0/") or said(broker, f"topic={topic} ") or said(broker, f"/{topic}-0 "))


def assert_served_or_said(broker: BrokerProcess, kind: str, reading: Reading, expected: Records) -> None:
    differing = {offset for offset, value in reading.records.items() if expected.get(offset) != value}
    assert not differing, f"{kind}: records that nobody wrote: {sorted(differing)[:5]}"
    missing = expected.keys() - reading.records.keys()
    if missing and (reading.error is None or not reading.end):
        assert is_said(broker, kind), f"{kind}: {len(missing)} records lost in silence, from {min(missing)}"


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_files_of_partitions(
    original: tuple[Path, Records], data: Path, tmp_path: Path, damage: str, is_clean: bool
) -> None:
    expected = original[1]
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
        (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for kind in KINDS:
        path = damaged_file(data, kind)
        if path is not None:
            DAMAGES[damage](path)
    problems: list[str] = []
    with BrokerProcess(tmp_path / "broker", data=data) as broker:
        wait_for_leaders(broker, [kind for kind in KINDS if kind != "metadata"])
        readings = {kind: read_all(broker, kind) for kind in KINDS}
        for kind, reading in readings.items():
            try:
                assert_served_or_said(broker, kind, reading, expected)
                if kind.startswith("log-"):
                    assert append_one(broker, kind) in (0, KAFKA_STORAGE_ERROR), kind
                if reading.error is not None:
                    assert kind == "metadata" or kind.startswith("log-"), f"{kind}: {reading.error}"
                elif not kind.startswith("log-"):
                    assert reading.records == expected, f"{kind}: {reading.error}, {len(reading.records)} records"
                    assert append_one(broker, kind) == 0, kind
            except AssertionError as error:
                problems.append(str(error).split("\n")[0])
        if broker.peak_rss_bytes() > MAX_RSS_BYTES:
            problems.append(f"{broker.peak_rss_bytes()} bytes of memory: room was made for what a damaged length says")
        broker.kill()
        broker.start()
        wait_for_leaders(broker, [kind for kind in KINDS if kind != "metadata"])
        for kind, reading in readings.items():
            again = read_all(broker, kind)
            lost = reading.records.keys() - again.records.keys()
            if lost and again.error is None and not is_said(broker, kind):
                problems.append(f"{kind}: {len(lost)} records lost by the second start")
        if broker.stop() != 0:
            problems.append("the stop was not clean")
    assert not problems, "\n".join(problems)


def refusal_of(broker: BrokerProcess) -> str | None:
    """What a broker said that did not start, in order and by itself; None of one that did."""
    try:
        broker.start()
    except NotStarted as error:
        words = str(error)
    else:
        return None
    assert words.startswith(("exit code 1", "exit code 2")) and "Traceback" not in words, words
    return words


CHECKPOINTS = ("log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint")
FILES_OF_DIRECTORIES = {
    "meta": ("meta.properties",),
    "clean shutdown": (".kafka_cleanshutdown",),
    "recovery points": ("recovery-point-offset-checkpoint",),
    "other checkpoints": CHECKPOINTS,
    "store": ("barnabas-store.sqlite",),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("files", FILES_OF_DIRECTORIES)
def test_files_of_a_log_directory(
    original: tuple[Path, Records], data: Path, tmp_path: Path, files: str, damage: str
) -> None:
    names = FILES_OF_DIRECTORIES[files]
    for name in names:
        path = data / name
        if not path.exists():
            path.write_text("0\n0\n")
        DAMAGES[damage](path)
    broker = BrokerProcess(tmp_path / "broker", data=data)
    refusal = refusal_of(broker)
    if refusal is not None:
        assert any(name in refusal for name in names)
        return
    try:
        wait_for_leaders(broker, ["untouched", "epochs"], timeout_s=2 if files == "store" else 10)
        for kind in ("untouched", "epochs"):
            reading = read_all(broker, kind)
            if files == "store" and reading.records == {}:
                assert said(broker, "the cluster does not know their topics")  # they were in there
                return
            assert reading.records == original[1], (kind, reading.error)
        assert append_one(broker, "untouched") == 0
        assert broker.stop() == 0
    finally:
        broker.kill()


FOREIGN = {
    "files": {
        "notes.txt": b"hello",
        ".DS_Store": b"\x00\x01",
        "stranger-0": b"a file that is named like a folder",
        "untouched-0/00000000000000009999.log": b"hello, this is no batch" * 10,
        "untouched-0/backup.log": b"hello",
        "untouched-0/123.log": b"hello",
        "untouched-0/00000000000000007777.index": b"12345678",
        "untouched-0/00000000000000007777.snapshot": b"12345678",
        "untouched-0/00000000000000000000.log.deleted": b"hello",
    },
    "swap": {"untouched-0/00000000000000000000.log.swap": b"hello"},
    "cleaned": {"untouched-0/00000000000000000000.log.cleaned": b"hello"},
}


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_foreign_files(
    original: tuple[Path, Records], data: Path, tmp_path: Path, foreign: str, is_clean: bool
) -> None:
    for name, content in FOREIGN[foreign].items():
        (data / name).write_bytes(content)
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    with BrokerProcess(tmp_path / "broker", data=data) as broker:
        wait_for_leaders(broker, ["untouched"])
        reading = read_all(broker, "untouched")
        assert reading.records == original[1], (reading.error, said(broker, "untouched-0/"))
        assert append_one(broker, "untouched") == 0
        assert broker.stop() == 0


def test_a_foreign_folder_is_named(data: Path, tmp_path: Path) -> None:
    (data / "backup").mkdir()
    code, words = BrokerProcess(tmp_path / "broker", data=data).refuses_to_start()
    assert code == 1 and str(data / "backup") in words and "Traceback" not in words


@pytest.mark.parametrize("mode", [0o000, 0o400], ids=["forbidden", "read only"])
@pytest.mark.parametrize("kind", ["log-middle", "log-last", "index-last", "snapshot-last", "epochs", "metadata"])
def test_permissions(original: tuple[Path, Records], data: Path, tmp_path: Path, kind: str, mode: int) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, to be no superuser")
    path = damaged_file(data, kind)
    assert path is not None
    path.chmod(mode)
    broker = Unprivileged(tmp_path / "broker", data=data)
    refusal = refusal_of(broker)
    if refusal is not None:
        assert path.parent.name in refusal
        return
    try:
        wait_for_leaders(broker, [kind], timeout_s=2)
        reading = read_all(broker, kind)
        assert_served_or_said(broker, kind, reading, original[1])
        append_one(broker, kind)
    finally:
        broker.kill()


class Unprivileged(BrokerProcess):
    """A broker that permissions hold for, also when the tests run as root."""

    def launch(self) -> int:
        popen = subprocess.Popen

        def without_override(arguments: list[str], **options: object) -> subprocess.Popen[bytes]:
            drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"]
            return popen([*drop, *arguments], **options)  # type: ignore[call-overload,no-any-return]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.robustness.process.subprocess.Popen", without_override)
            return super().launch()

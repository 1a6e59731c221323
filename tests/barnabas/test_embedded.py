"""The embedded broker serves, and leaves nothing behind, however its parent ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import BrokerStartError, EmbeddedBroker
from tests.barnabas.wire import topics_of

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


def _folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("barnabas-")}


def _is_running(process_id: int) -> bool:
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state = stat.rpartition(")")[2].split()[0]
    return state != "Z"


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of this module put their data where other processes do not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_topics_are_there_and_nothing_is_left() -> None:
    with EmbeddedBroker(topics={"orders": 3, "bills": 1}, settings={"auto.create.topics.enable": False}) as broker:
        assert topics_of(broker.bootstrap_servers) == {"orders": 3, "bills": 1}
        assert len(_folders()) == 1
        process_id = broker.process_id
    assert not _is_running(process_id)
    assert _folders() == set()
    broker.close()


def test_it_tells_where_its_metrics_are() -> None:
    with EmbeddedBroker(settings={"barnabas.http.port": 0}) as broker:
        assert urllib.request.urlopen(f"http://{broker.http}/ready", timeout=30).read()
    assert broker.http is None


def test_names_alone_make_topics_of_one_partition() -> None:
    with EmbeddedBroker(["a", "b"]) as broker:
        assert topics_of(broker.bootstrap_servers) == {"a": 1, "b": 1}


def test_two_brokers_are_strangers() -> None:
    with EmbeddedBroker(["a"]) as first, EmbeddedBroker(["b"]) as second:
        assert first.bootstrap_servers != second.bootstrap_servers
        assert topics_of(second.bootstrap_servers) == {"b": 1}


def test_a_broker_can_start_again_empty() -> None:
    broker = EmbeddedBroker(["a"])
    for _ in range(2):
        with broker:
            assert topics_of(broker.bootstrap_servers) == {"a": 1}


def test_the_environments_kafka_variables_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "none")
    monkeypatch.setenv("KAFKA_CREATE_TOPICS", "not:this:one:at:all")
    with EmbeddedBroker() as broker:
        assert topics_of(broker.bootstrap_servers) == {}


def test_settings_with_strange_characters_arrive() -> None:
    odd = ' #1 \\ a=b:c\t"é😀" '
    with EmbeddedBroker(settings={"broker.rack": odd, "barnabas.http.port": 0}) as broker:
        file = Path(broker._folder) / "server.properties"
        from config.sources import read_properties

        assert read_properties(file.read_text(encoding="latin-1"))["broker.rack"] == odd


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log.segment.bytes": 1}, r"log.segment.bytes: Value must be at least 14"),
        ({"log.segmnt.bytes": 100}, r"unknown setting log\.segmnt\.bytes: did you mean log\.segment\.bytes\?$"),
        (
            {"retention.ms": 100, "zzz": 1},
            r"unknown setting retention\.ms: it is a topic's, the broker's is log\.retention\.ms; unknown setting zzz$",
        ),
    ],
)
def test_a_bad_setting_is_told_and_nothing_is_left(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BrokerStartError, match=message):
        EmbeddedBroker(settings=settings).start()
    assert _folders() == set()


PARENT = """
import json, sys, time
from barnabas import EmbeddedBroker
broker = EmbeddedBroker(["a"])
broker.start()
print(json.dumps([broker.process_id, broker._folder]), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def _parent(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert parent.stdout is not None
        yield parent, *json.loads(parent.stdout.readline())
    finally:
        parent.kill()
        parent.wait()
        assert parent.stdout is not None
        parent.stdout.close()


def test_it_goes_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with _parent(tmp_path) as (parent, process_id, folder):
        assert _is_running(process_id)
        parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while _is_running(process_id) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _is_running(process_id)
        assert not os.path.exists(folder)

"""The embedded broker serves, and leaves nothing behind, however its parent ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas import BrokerRequestError, BrokerStartError, EmbeddedBroker
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
        assert broker.http == broker.http_address
        assert urllib.request.urlopen(f"http://{broker.http_address}/ready", timeout=30).read()
    assert broker.http_address is None


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


def test_topics_are_created_while_it_runs() -> None:
    with EmbeddedBroker(["a"], {"auto.create.topics.enable": False}) as broker:
        broker.create_topic("b", 3, settings={"retention.ms": 60_000, "unclean.leader.election.enable": True})
        assert topics_of(broker.bootstrap_servers) == {"a": 1, "b": 3}
        with pytest.raises(BrokerRequestError, match="TOPIC_ALREADY_EXISTS: Topic 'a' already exists"):
            broker.create_topic("a")
        with pytest.raises(BrokerRequestError, match=r"INVALID_CONFIG: .*retentio\.ms"):
            broker.create_topic("c", settings={"retentio.ms": 1})


def test_a_broker_ends_in_every_way_and_goes_on_with_its_data() -> None:
    with EmbeddedBroker(["t"]) as broker:
        settings, address = broker.client_settings(), broker.bootstrap_servers
        producer = Producer({**settings, "log_level": 0})
        sent = [b"first", b"killed", b"stopped", b"restarted", b"paused"]
        for value in sent:
            match value:
                case b"killed":
                    process_id = broker.process_id
                    broker.kill()
                    assert not _is_running(process_id)
                case b"stopped":
                    broker.stop()
                case b"paused":
                    broker.pause()
            producer.produce("t", value)
            if value == b"paused":
                assert producer.flush(0.5) == 1, "it hangs"
                broker.resume()
            elif value != b"first":
                broker.restart()
                assert broker.bootstrap_servers == address
            assert producer.flush(PATIENCE_S) == 0
        assert _read(broker, len(sent)) == sent


def _read(broker: EmbeddedBroker, count: int) -> list[bytes | None]:
    """Return the values of the only partition of `t`."""
    consumer = Consumer({**broker.client_settings(), "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0})
    consumer.subscribe(["t"])
    values = [record.value() for record in consumer.consume(count, PATIENCE_S)]
    consumer.close()
    return values


def test_restore_undoes_everything() -> None:
    with EmbeddedBroker(["t"]) as broker:
        for undone in (lambda: None, broker.kill, broker.stop, broker.pause, lambda: _crash(broker)):
            undone()
            broker.restore()
            assert topics_of(broker.bootstrap_servers) == {"t": 1}
        broker.inject("Metadata", delay_ms=600_000, times=3)
        assert broker.faults_left() == 3
        broker.restore()
        assert topics_of(broker.bootstrap_servers) == {"t": 1}


def _crash(broker: EmbeddedBroker) -> None:
    """End a broker, not by its own methods, and wait until it is known."""
    os.kill(broker.process_id, signal.SIGKILL)
    process = broker._process
    assert process is not None
    while not process.ended:
        process.take_events()


PARENT = """
import json, sys, time
from barnabas import EmbeddedBroker
broker = EmbeddedBroker(["a"], brokers={brokers})
broker.start()
broker.pause(0)
print(json.dumps([[*broker.process_ids.values(), broker._process.process_id], broker._folder]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("brokers", [1, 3])
def test_everything_goes_with_a_parent_that_is_killed(tmp_path: Path, brokers: int) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PARENT.format(brokers=brokers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        process_ids, folder = json.loads(parent.stdout.readline())
        assert all(map(_is_running, process_ids))
        parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while (any(map(_is_running, process_ids)) or os.path.exists(folder)) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not any(map(_is_running, process_ids))
    assert not os.path.exists(folder)

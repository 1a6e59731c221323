"""`barnabas start --brokers`: brokers and their store as processes that are killed, stopped, and started again."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from prometheus_client.parser import text_string_to_metric_families

from barnabas.listening import free_port
from tests.barnabas.supervisor.several import (
    PATIENCE_S,
    Several,
    kill,
    lives,
    name_of,
    produce,
    read,
    start_line,
    until,
)
from tests.barnabas.test_service import hears
from tests.oracle.ports import lasting_port

THREE = {"default.replication.factor": "3", "min.insync.replicas": "2", "barnabas.http.port": "0"}
SIX = [str(number) for number in range(6)]


def page(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_brokers_and_their_store_come_back(tmp_path: Path) -> None:
    with Several(tmp_path, 3, settings=THREE) as brokers:
        assert list(brokers.processes) == ["broker 0", "broker 1", "broker 2", "store"]
        assert all(name_of(process_id) == name for name, process_id in brokers.processes.items())
        (http,) = re.findall(r"http://(\S+)/metrics", brokers.banner)
        assert page(http, "/ready") == (200, "ready\nbroker 0: ready\nbroker 1: ready\nbroker 2: ready\n")
        produce(brokers.bootstrap_servers, "orders", SIX[:2])
        kill(brokers.processes["broker 1"])
        produce(brokers.bootstrap_servers, "orders", SIX[2:4])
        until(lambda: 'broker_restarts_total{broker="1"} 1' in page(http, "/metrics")[1])
        until(lambda: page(http, "/ready")[0] == 200)
        metrics = page(http, "/metrics")[1]
        samples = [sample for family in text_string_to_metric_families(metrics) for sample in family.samples]
        controllers = [sample for sample in samples if sample.name.endswith("activecontrollercount")]
        assert sorted(sample.labels["broker"] for sample in controllers) == ["0", "1", "2"]
        assert sum(sample.value for sample in controllers) == 1
        kill(brokers.processes["store"])
        produce(brokers.bootstrap_servers, "orders", SIX[4:])
        until(lambda: "name=store process_id=" in brokers.log.read_text())
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        (created,) = admin.create_topics([NewTopic("more", 1, 3)]).values()
        created.result(PATIENCE_S)
        assert read(brokers.bootstrap_servers, "orders", 6) == SIX
        assert page(http, "/live") == (200, "live\n")
        assert brokers.stop() == 0
        lines = brokers.log.read_text().splitlines()
    assert "session expired" not in "\n".join(lines), "the store was away for less than the timeout"
    stopped = [line for line in lines if "stopped" in line]
    assert sum("broker stopped: clean_shutdown=True" in line for line in stopped) == 3
    assert stopped[-1].startswith("store    | "), "the last, for the brokers need it"
    assert {line.partition(" | ")[0] for line in lines if " | " in line} == {
        "broker 0",
        "broker 1",
        "broker 2",
        "store   ",
    }
    with Several(tmp_path, 3, settings=THREE) as brokers:
        assert read(brokers.bootstrap_servers, "orders", 6) == SIX
    until(lambda: not any(lives(process_id) for process_id in brokers.processes.values()))


def test_nobody_is_left_when_the_command_is_killed_or_hurried(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGINT):
        with Several(tmp_path, 2) as brokers:
            os.kill(brokers.processes["broker 1"], signal.SIGSTOP)  # which does not stop in order
            brokers.process.send_signal(number)
            if number is signal.SIGINT:
                brokers.process.send_signal(signal.SIGTERM)
            brokers.process.wait(PATIENCE_S)
            until(lambda b=brokers: not any(lives(process_id) for process_id in b.processes.values()))


def test_a_lone_brokers_topics_go_on(tmp_path: Path) -> None:
    lone = {"broker.id": "7", "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    reader, writer = os.pipe()
    line = start_line(tmp_path, "--no-banner", "--topic", "orders:1:1", "--ready-fd", str(writer), settings=lone)
    with subprocess.Popen(line, pass_fds=[writer], stderr=subprocess.DEVNULL) as process:
        os.close(writer)
        assert os.read(reader, 1)
        os.close(reader)
        produce(lone["listeners"].partition("//")[2], "orders", SIX)
        process.terminate()
    with Several(tmp_path, 2) as brokers:
        assert list(brokers.processes) == ["broker 7", "broker 8", "store"], "the id is that of the data"
        assert "barnabas partitions plan --brokers 7,8 --replication-factor 2 TOPIC > plan.json" in brokers.banner
        assert read(brokers.bootstrap_servers, "orders", 6) == SIX
        assert brokers.stop() == 0
    for refused, told in (([], "barnabas start --brokers 2"), (["--brokers", "1"], "barnabas start --brokers 2")):
        done = subprocess.run(
            start_line(tmp_path, *refused, "--no-banner"), capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert (done.returncode, told in done.stderr) == (1, True)


def test_a_log_that_nobody_reads_stops_no_broker(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    try:
        with Several(tmp_path, 2, "--log-level", "DEBUG", stderr=writer) as brokers:
            os.close(writer)
            produce(brokers.bootstrap_servers, "orders", SIX)
            os.close(reader)
            reader = -1
            produce(brokers.bootstrap_servers, "more", SIX)
            assert brokers.stop() == 0
    finally:
        if reader >= 0:
            os.close(reader)


def test_the_store_knows_the_brokers_by_their_login(tmp_path: Path) -> None:
    login = {"barnabas.zookeeper.sasl.username": "kafka", "barnabas.zookeeper.sasl.password": "its-secret"}
    with Several(tmp_path, 1, settings={"zookeeper.set.acl": "true", **login}) as brokers:
        produce(brokers.bootstrap_servers, "orders", SIX)
        stranger = KazooClient(brokers.addresses["store"], randomize_hosts=False)
        stranger.start(PATIENCE_S)
        try:
            rights, _ = stranger.get_acls("/brokers/topics/orders")
            assert {(one.id.scheme, one.id.id) for one in rights} == {("sasl", "kafka"), ("world", "anyone")}
            with pytest.raises(NoAuthError):
                stranger.set("/brokers/topics/orders", b"")
        finally:
            stranger.stop()
            stranger.close()
        assert "its-secret" not in brokers.log.read_text()


def refused_start(folder: Path, *arguments: str, settings: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        start_line(folder, *arguments, settings=settings), capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.returncode, done.stderr


def test_what_cannot_start_is_told_with_its_reason(tmp_path: Path) -> None:
    first = lasting_port(count=2)  # nobody's connection has the other one by chance
    port = first + 1
    with socket.create_server(("127.0.0.1", port)):
        code, told = refused_start(tmp_path, "--brokers", "2", settings={"listeners": f"PLAINTEXT://127.0.0.1:{first}"})
        assert code == 1
        assert f"port {port} of broker 1 (listener PLAINTEXT) is taken by process {os.getpid()}" in told
    code, told = refused_start(tmp_path, "--brokers", "2", "--override-broker", "0:broker.id=3", settings={})
    assert (code, "broker.id follows from what all brokers are given" in told) == (2, True)
    code, told = refused_start(tmp_path, "--brokers", "2", settings={"inter.broker.protocol.version": "0.10.2"})
    assert (code, "inter.broker.protocol.version=0.10.2" in told) == (2, True)
    code, told = refused_start(tmp_path, "--override-broker", "0:broker.rack=r", settings={})
    assert (code, "are for several brokers" in told) == (2, True)
    assert not (tmp_path / "data" / "broker_0" / "meta.properties").exists()


def test_the_service_manager_hears_of_all(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with Several(tmp_path, 2, environment=environment) as brokers:
            starting: list[str] = []
            hears(manager, "READY", starting)
            assert "STATUS=serving, 2 of 2 brokers" in starting
            running: list[str] = []
            hears(manager, "WATCHDOG", running)
            assert not [line for line in starting + running if "not started" in line], "brokers tell nothing themselves"
            brokers.process.send_signal(signal.SIGTERM)
            stopping: list[str] = []
            hears(manager, "STOPPING", stopping)
            assert brokers.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("form", ["json", "text"])
def test_one_broker_may_have_settings_of_its_own(form: str, tmp_path: Path) -> None:
    arguments = ["--log-format", form, "--override-broker", "1:barnabas.log.level=DEBUG"]
    with Several(tmp_path, 2, *arguments) as brokers:
        brokers.process.send_signal(signal.SIGHUP)
        until(lambda: brokers.log.read_text().count("there is no log file to open anew") == 2)
        assert brokers.stop() == 0
    names = {"json": '"process":"broker {}"', "text": "broker {} | "}[form]
    debug = [line for line in brokers.log.read_text().splitlines() if re.search(r"level\W+debug", line)]
    assert debug
    assert all(names.format(1) in line for line in debug)

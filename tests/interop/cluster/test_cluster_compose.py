"""The compose file run for real: clients and a Spark job on the host, while brokers in containers are killed and stopped.

Needs a Docker engine (DOCKER_HOST) with docker-compose 1.29 or `docker compose`; COMPOSE_FILE says which files, without it
the ones that build every image. The ports are those that the file publishes.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]

from tests.interop.cluster.cluster_load import Load, check
from tests.oracle import java
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

BOOTSTRAP_SERVERS = "localhost:19092,localhost:29092,localhost:39092"
READY = {1: "http://localhost:18080/ready", 2: "http://localhost:28080/ready", 3: "http://localhost:38080/ready"}
PAGE, SECURED_PAGE = "http://localhost:18082", "http://localhost:18083"
PROMETHEUS, GRAFANA = "http://localhost:19090", "http://localhost:13000"
SECURED_SERVERS = "localhost:19093,localhost:29093,localhost:39093"
TOPIC = "orders"
PARTITIONS = 3
SESSION_TIMEOUT_S = 6.0


class Compose:
    """The cluster of docker-compose.yml, from `up` to `down`."""

    def __init__(self) -> None:
        self._command = _command()
        self._environment = {
            "COMPOSE_FILE": f"docker-compose.yml{os.pathsep}docker-compose.build.yml",
            "COMPOSE_PROJECT_NAME": "barnabas-test",
            **os.environ,
        }
        self.admin = AdminClient({"log_level": 0, "bootstrap.servers": BOOTSTRAP_SERVERS})

    def do(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], cwd=REPOSITORY, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def __enter__(self) -> Compose:
        try:
            self.do("up", "--build", "--detach")
            for broker in READY:
                self.wait_until_ready(broker)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        print(self.do("logs", "--no-color", "--tail", "50", "broker1", "broker2", "broker3"))
        self.do("down", "--volumes", "--timeout", "30")

    def wait_until_ready(self, broker: int) -> None:
        assert wait_until(lambda: _answers(READY[broker]), 90, 0.2), f"broker {broker} is not ready"

    def create(self) -> None:
        for future in self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
            future.result(30)

    def leader(self, partition: int) -> int:
        return int(self.admin.list_topics(TOPIC, 20).topics[TOPIC].partitions[partition].leader)

    def wait_in_sync(self) -> None:
        def is_in_sync() -> bool:
            topics = self.admin.list_topics(timeout=20).topics.values()
            return all(len(one.isrs) == len(one.replicas) for topic in topics for one in topic.partitions.values())

        assert wait_until(is_in_sync, 90, 0.2), "not in sync again"


class Archive:
    """The Spark job that keeps a topic as Parquet, on the host."""

    def __init__(self, folder: Path) -> None:
        self.output, self._checkpoint, self._log = folder / "archive", folder / "checkpoint", folder / "archive.log"

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("ab") as log, self._start("--trigger", "1 second", log=log) as job:
            try:
                self.wait_for_batches(2)
                yield
                assert job.poll() is None, f"the job ended: {self._log.read_text()[-3000:]}"
                job.terminate()  # as a user stops it
                assert job.wait(120) == 0, self._log.read_text()[-3000:]
            finally:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)

    def finish(self) -> None:
        """What has come since."""
        with self._log.open("ab") as log, self._start("--trigger", "available-now", log=log) as job:
            assert job.wait(180) == 0, self._log.read_text()[-3000:]

    def batches(self) -> int:
        return sum(1 for one in (self._checkpoint / "commits").glob("*") if one.name.isdigit())

    def wait_for_batches(self, more: int) -> None:
        wanted = self.batches() + more
        assert wait_until(lambda: self.batches() >= wanted, 180, 0.2), self._log.read_text()[-3000:]

    def _start(self, *arguments: str, log: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "barnabas", "pipeline", "archive", "--connector", *arguments]
        command += ["--bootstrap-servers", BOOTSTRAP_SERVERS]
        command += ["--topics", TOPIC, "--output", str(self.output), "--checkpoint", str(self._checkpoint)]
        environment = java.spark_environment()
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log, start_new_session=True
        )

    def numbers(self) -> dict[tuple[int, int], int]:
        """What was archived: number by partition and offset. Raises when a record is there twice."""
        from barnabas.pipeline import session

        spark = session.spark_session("check")
        try:
            rows = spark.read.parquet(str(self.output)).select("partition", "offset", "value").collect()
        finally:
            spark.stop()
        found = {(row["partition"], row["offset"]): int(bytes(row["value"])) for row in rows}
        assert len(found) == len(rows), "archived twice"
        return found


def test_brokers_in_containers_fail_under_clients_and_a_spark_job(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is needed")
    archive = Archive(tmp_path)
    with Compose() as compose:
        compose.create()
        assert wait_until(lambda: _answers(f"{PAGE}/ui/"), 90, 0.5)
        assert _json(f"{PAGE}/v3/clusters")["data"]
        with Load(BOOTSTRAP_SERVERS, TOPIC, PARTITIONS, rate=500) as load, archive.running():
            for verb in ("kill", "stop", "kill"):
                victim = compose.leader(0)
                begun_s = time.monotonic()
                compose.do(verb, f"broker{victim}")
                load.wait_for_acknowledgements(1500)
                load.wait_for_reads(500)
                archive.wait_for_batches(2)  # with a broker away
                gap_s = load.longest_gap_s(begun_s - 0.1)
                print(f"{verb} broker{victim}: gap {gap_s:.2f} s, leader now broker{compose.leader(0)}")
                assert gap_s < SESSION_TIMEOUT_S + 2  # of which one for a machine that does everything at once
                assert compose.leader(0) != victim
                compose.do("start", f"broker{victim}")
                compose.wait_until_ready(victim)
                compose.wait_in_sync()
                load.wait_for_acknowledgements(500)
        check(load, BOOTSTRAP_SERVERS)
        archive.finish()
    archived = archive.numbers()
    print(f"{len(load.acknowledged)} acknowledged, {len(archived)} archived in {archive.batches()} batches")
    kept = sorted((partition, number) for (partition, _), number in archived.items())
    assert kept == sorted((one.partition, one.number) for one in load.acknowledged)


def test_the_profile_secure_has_users_and_acls(tmp_path: Path) -> None:
    """Administered by the command line, with the properties that the containers have generated."""
    compose = Compose()
    secured = ["--profile", "secure"]

    def barnabas(user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        properties = tmp_path / f"{user}.properties"
        if not properties.exists():
            properties.write_text(compose.do(*secured, "exec", "-T", "secure1", "cat", f"/security/{user}.properties"))
        command = [sys.executable, "-m", "barnabas.cli", *arguments, "--command-config", str(properties)]
        command += ["--bootstrap-server", SECURED_SERVERS]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)

    try:
        compose.do(*secured, "up", "--build", "--detach", "secure1", "secure2", "secure3", "secure-web")
        assert wait_until(lambda: barnabas("admin", "brokers", "list").stdout.count("yes") == 1, 180, 1)
        assert wait_until(
            lambda: barnabas("admin", "topics", "create", TOPIC, "--if-not-exists").returncode == 0, 60, 1
        )
        denied = barnabas("alice", "consume", TOPIC, "--until-end")
        assert denied.returncode == 1
        assert "AUTHORIZATION_FAILED" in denied.stderr
        assert wait_until(lambda: _answers(f"{SECURED_PAGE}/ui/"), 90, 0.5)
        assert _json(f"{SECURED_PAGE}/api/session")["wants_login"]
        granted = barnabas(
            "admin", "acls", "add", "--topic", TOPIC, "--allow-principal", "User:alice", "--operation", "read"
        )
        assert granted.returncode == 0, granted.stderr
        assert wait_until(lambda: barnabas("alice", "consume", TOPIC, "--until-end").returncode == 0, 30, 1)
    finally:
        print(compose.do(*secured, "logs", "--no-color", "--tail", "50", "secure1", "secure2", "secure3"))
        compose.do(*secured, "down", "--volumes", "--timeout", "30")


def test_the_profile_monitoring_scrapes_every_broker_and_fires_alerts() -> None:
    """Grafana is asked where its image could be had; the rules are those of deploy/, as Prometheus has read them."""
    compose = Compose()
    monitoring = ["--profile", "monitoring"]
    brokers = ["broker1", "broker2", "broker3"]
    try:
        compose.do(*monitoring, "up", "--build", "--detach", *brokers, "prometheus")
        for broker in READY:
            compose.wait_until_ready(broker)
        assert wait_until(
            lambda: _answer_of("up == 1").keys() == {"broker1:8080", "broker2:8080", "broker3:8080"}, 90, 1
        )
        rules = _json(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
        assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
        compose.do(
            *monitoring, "exec", "-T", "prometheus", "promtool", "test", "rules", "/etc/prometheus/alerts_test.yml"
        )
        compose.create()
        compose.do("kill", "broker3")
        for alert in ("BrokerDown", "UnderReplicatedPartitions"):
            assert wait_until(lambda alert=alert: _is_raised(alert), 120, 1), alert  # type: ignore[misc]
        if _can_have("grafana/grafana"):
            compose.do(*monitoring, "up", "--detach", "grafana")
            assert wait_until(lambda: _answers(f"{GRAFANA}/api/health"), 120, 1)
            board = _json(f"{GRAFANA}/api/dashboards/uid/barnabas")
            assert board["meta"]["provisioned"] and board["dashboard"]["panels"]
            source = _json(f"{GRAFANA}/api/datasources/name/Prometheus", login="admin:admin")["uid"]
            health = _json(f"{GRAFANA}/api/datasources/uid/{source}/health", login="admin:admin")
            assert health["status"] == "OK"
    finally:
        print(compose.do(*monitoring, "logs", "--no-color", "--tail", "50", "prometheus", *brokers))
        compose.do(*monitoring, "down", "--volumes", "--timeout", "30")


def _json(url: str, login: str = "") -> dict[str, Any]:
    request = urllib.request.Request(url)
    if login:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _answer_of(query: str) -> dict[str, str]:
    """Values by instance; none while Prometheus does not answer."""
    try:
        rows = _json(f"{PROMETHEUS}/api/v1/query?query={urllib.parse.quote(query)}")["data"]["result"]
    except OSError:
        return {}
    return {row["metric"].get("instance", ""): row["value"][1] for row in rows}


def _is_raised(alert: str) -> bool:
    return bool(_answer_of(f'ALERTS{{alertname="{alert}"}}'))


def _can_have(image: str) -> bool:
    """Whether the engine has an image, or can pull it."""
    with (REPOSITORY / "docker-compose.yml").open() as file:
        named = next(line.split()[1] for line in file if f"image: {image}" in line)
    return any(
        subprocess.run(["docker", *command, named], capture_output=True, timeout=600).returncode == 0
        for command in (("image", "inspect"), ("pull",))
    )


def _command() -> list[str]:
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("a Docker engine is needed")
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is needed")
    return ["docker-compose"]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

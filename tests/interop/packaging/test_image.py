"""The image is small, and runs as a user without rights, with a root that it cannot write to; its health is that of the broker.

Needs a Docker engine (DOCKER_HOST) that has the Python image of the Dockerfile, or can pull it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]

from tests.oracle.barnabas import REPOSITORY
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1800)]

LIMIT_BYTES = 64_000_000
"""What the image has more than the Python image that it is made from."""
WITHOUT_RIGHTS = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = [b"x" * 1_000 + b"%d" % number for number in range(100)]


def docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def log_of(container: str) -> str:
    return subprocess.run(
        ["docker", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def inspected(thing: str) -> Any:
    return json.loads(docker("inspect", thing))[0]


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("a Docker engine is needed")
    name = f"barnabas-test-{uuid.uuid4().hex[:12]}"
    docker("build", "--network", "host", "--target", "broker", "--tag", name, ".")
    yield name
    docker("rmi", "--force", name)


@contextmanager
def running(image: str, *options: str) -> Iterator[tuple[str, str]]:
    """A container and the address of its broker, which is well."""
    port = lasting_port()
    container = docker(
        "run", "--detach", *WITHOUT_RIGHTS, *options, "--publish", f"127.0.0.1:{port}:9092",
        "--env", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port}", image,
    ).strip()  # fmt: skip
    try:
        is_well = wait_until(
            lambda: inspected(container)["State"].get("Health", {}).get("Status") == "healthy", 90, 0.5
        )
        assert is_well, log_of(container)
        yield container, f"localhost:{port}"
    finally:
        docker("rm", "--force", "--volumes", container)


def test_it_is_small(image: str) -> None:
    base = re.search(r"^ARG PYTHON_IMAGE=(\S+)", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    assert 0 < inspected(image)["Size"] - inspected(base[1])["Size"] < LIMIT_BYTES
    assert "pip" not in docker("run", "--rm", "--entrypoint", "ls", image, "/opt/barnabas/bin").split()
    assert "barnabas.1" in docker("run", "--rm", "--entrypoint", "ls", image, "/opt/barnabas/share/man/man1").split()


@pytest.mark.parametrize(
    "user", [(), ("--user", "4321:4321", "--tmpfs", "/var/lib/barnabas:uid=4321")], ids=["its own", "any user"]
)
def test_it_serves_as_a_user_without_rights(image: str, user: tuple[str, ...]) -> None:
    assert inspected(image)["Config"]["User"] == "1000:1000"
    with running(image, *user) as (container, servers):
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [NewTopic(f"as-{codec}", 1, 1, config={"compression.type": _stored(codec)}) for codec in CODECS]
        for created in admin.create_topics(topics).values():
            created.result(30)
        for codec in CODECS:
            assert _echo(servers, f"as-{codec}", codec) == RECORDS
        assert {topic.topic for topic in topics} <= set(docker("exec", container, "barnabas", "topics", "list").split())
        assert "Read-only file system" in _refused(container, "touch", "/opt/barnabas/x")
        docker("stop", container)
        assert inspected(container)["State"]["ExitCode"] == 0
        assert "clean_shutdown=True" in log_of(container)


def test_a_broker_that_does_not_serve_is_not_well(image: str) -> None:
    with running(image) as (container, _):
        ready = ["docker", "exec", container, "python", "-I", "-S", "/opt/barnabas/ready.py"]
        assert subprocess.run(ready, capture_output=True, check=False).returncode == 0
        elsewhere = [*ready[:2], "--env", "KAFKA_BARNABAS_HTTP_PORT=1", *ready[2:]]
        done = subprocess.run(elsewhere, capture_output=True, text=True, check=False)
        assert (done.returncode, "refused" in done.stdout) == (1, True)


def _stored(codec: str) -> str:
    """Another codec than the producer's, so that the broker compresses."""
    return {"none": "zstd", "gzip": "lz4", "snappy": "gzip", "lz4": "snappy", "zstd": "lz4"}[codec]


def _echo(servers: str, topic: str, codec: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
    for value in RECORDS:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < len(RECORDS):
            messages = consumer.consume(len(RECORDS), 60)
            assert messages, f"{len(found)} records came"
            found += [value for message in messages if (value := message.value()) is not None]
    finally:
        consumer.close()
    return found


def _refused(container: str, *command: str) -> str:
    done = subprocess.run(["docker", "exec", container, *command], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr

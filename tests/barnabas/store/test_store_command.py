"""`barnabas store`: its settings, its exit codes, and the life of its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.store.options import StoreServerOptions, TlsOptions
from barnabas.store.process import COPY_NAME
from config.errors import ConfigError
from config.store_server import StoreServerSettings
from metadata.store.store_file import StoreFile
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.process import wait_until

COMMAND = [sys.executable, "-m", "barnabas.cli", "store"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def options(**given: str) -> StoreServerOptions:
    return StoreServerOptions.of(StoreServerSettings({"dataDir": "d", **given}))


def test_defaults_are_those_of_zoo_cfg() -> None:
    assert options() == StoreServerOptions("d", host="", port=2181)
    assert options(clientPort="0", clientPortAddress="h").port == 0
    assert options(minSessionTimeout="1", maxSessionTimeout="2", maxClientCnxns="0") == StoreServerOptions(
        "d", host="", session_timeout_min_ms=1, session_timeout_max_ms=2, connections_max=0
    )


def test_the_zookeeper_properties_of_apache_kafka_are_taken() -> None:
    given = {"dataDir": "/tmp/zookeeper", "clientPort": "2181", "maxClientCnxns": "0", "admin.enableServer": "false"}
    assert options(**given) == StoreServerOptions("/tmp/zookeeper", host="", connections_max=0)


def test_tls_users_and_limits() -> None:
    given = {
        "secureClientPort": "2281",
        "ssl.keyStore.location": "k",
        "ssl.keyStore.password": "kp",
        "ssl.trustStore.location": "t",
        "ssl.clientAuth": "WANT",
        "barnabas.sasl.user.a.b": "p=1",
        "superUser": "a.b",
        "DigestAuthenticationProvider.superDigest": "super:x",
        "jute.maxbuffer": "4194304",
        "tickTime": "100",
    }
    known = options(**given)
    assert known.port is None
    assert known.tls == TlsOptions(2281, "", "k", "kp", "t", None, "want")
    assert (known.sasl_passwords, known.sasl_super_user, known.super_digest) == ({"a.b": "p=1"}, "a.b", "super:x")
    assert (known.frame_bytes_max, known.tick_ms) == (4_194_304, 100)
    assert "p=1" not in repr(known) and "kp" not in repr(known)
    assert "p=1" not in repr(StoreServerSettings({"dataDir": "d", **given}))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"server.1": "a:1:2"}, "setting of an ensemble"),
        ({"admin.enableServer": "true"}, "no AdminServer"),
        ({"tickTim": "1"}, "did you mean tickTime"),
        ({"tickTime": "0"}, "tickTime"),
        ({"clientPort": "65536"}, "clientPort"),
        ({"minSessionTimeout": "3", "maxSessionTimeout": "2"}, "minSessionTimeout=3 is more"),
        ({"secureClientPort": "1"}, "ssl.keyStore.location"),
        ({"ssl.clientAuth": "perhaps"}, "ssl.clientAuth"),
        ({"barnabas.sasl.user.": "p"}, "unknown setting"),
        ({"dataDir": ""}, "dataDir is not set"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        StoreServerSettings({"dataDir": "d", **given})


def start(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A server that serves, and what it said when it did."""
    reading, writing = os.pipe()
    line = [
        *COMMAND,
        "--data-dir",
        str(folder),
        "--port",
        "0",
        "--host",
        "127.0.0.1",
        "--ready-fd",
        str(writing),
        *arguments,
    ]
    process = subprocess.Popen(line, env=ENVIRONMENT, pass_fds=[writing], stderr=subprocess.PIPE, text=True)
    os.close(writing)
    with os.fdopen(reading) as ready:
        said = ready.readline()
    if not said:
        _, errors = process.communicate(timeout=60)
        raise AssertionError(errors)
    return process, json.loads(said)


def test_it_serves_until_a_signal_and_has_its_folder_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "by it"
    process, ready = start(folder)
    try:
        assert ready["address"].startswith("127.0.0.1:") and ready["secure_address"] is None
        for arguments, text in (
            (["--data-dir", str(folder), "--port", "0"], "cannot open the store"),
            (
                [
                    "--data-dir",
                    str(tmp_path / "other"),
                    "--port",
                    ready["address"].partition(":")[2],
                    "--host",
                    "127.0.0.1",
                ],
                "in use",
            ),
        ):
            second = subprocess.run(
                [*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
            )
            assert second.returncode == 1
            assert second.stderr.startswith("barnabas: ") or "\nbarnabas: " in second.stderr
            assert text in second.stderr.lower()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "one process without replicas" in errors
    assert "store server stopped" in errors


def test_its_file_is_copied_while_it_runs(tmp_path: Path) -> None:
    process, ready = start(tmp_path)
    try:
        kazoo = KazooClient(hosts=ready["address"])
        kazoo.start(timeout=30)
        kazoo.create("/a", b"before")
        process.send_signal(signal.SIGUSR1)
        assert wait_until((tmp_path / COPY_NAME).exists, 30)
        kazoo.set("/a", b"after")
        kazoo.stop()
        kazoo.close()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert "store copied: path=" in errors
    copy = StoreFile(str(tmp_path / COPY_NAME))
    tree = copy.load()
    copy.close()
    assert tree.nodes["/a"].data == b"before"
    assert len(tree.sessions) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--data-dir", "d", "--override", "unknown=1"],
        ["--data-dir", "d", "--override", "secureClientPort=0", "--override", "ssl.keyStore.location=/none"],
        ["/no/such.properties"],
        ["--no-such-option"],
        ["--port", "x"],
    ],
    ids=str,
)
def test_what_is_wrong_in_the_command_line_is_exit_code_2(tmp_path: Path, arguments: list[str]) -> None:
    run = subprocess.run(
        [*COMMAND, *arguments], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith("barnabas: ")
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []

"""The command line: what it prints, refuses and returns, and how a broker process ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.launch import command
from protocol.records.record import Record, encode_batch
from tests.barnabas.wire import topics_of
from tests.oracle.process import hear_interrupts

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
COMMAND = [sys.executable, "-m", "barnabas.cli"]


def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@contextlib.contextmanager
def started(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker and its banner."""
    line = [
        *COMMAND,
        "start",
        "--override",
        f"log.dirs={folder}/data",
        "--override",
        "listeners=PLAINTEXT://127.0.0.1:0",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*line, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        banner = ""
        while "try it" not in banner:
            text = process.stdout.readline()
            assert text, (folder / "log").read_text()
            banner += text
        yield process, banner
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_closed_standard_descriptors_go_to_nobody_else(tmp_path: Path) -> None:
    """Programs that start services close them; the first client's socket, or the event loop, would be standard output."""
    told, ready = os.pipe()
    line = command("start", "--override", f"log.dirs={tmp_path}", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *line, "--ready-fd", str(ready)], pass_fds=(ready,)
    )
    try:
        os.close(ready)
        with open(told, "rb") as pipe:
            assert pipe.readline()
        opened = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        process.terminate()
        assert (process.wait(PATIENCE_S), opened) == (0, [os.devnull] * 3)
    finally:
        process.kill()
        process.wait()


def test_a_banner_that_cannot_be_printed_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    told, ready = os.pipe()
    line = command("start", "--override", f"log.dirs={tmp_path}", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [*line, "--ready-fd", str(ready)], stdout=full, stderr=subprocess.PIPE, text=True, pass_fds=(ready,)
        )
    try:
        os.close(ready)
        with open(told, "rb") as pipe:
            assert pipe.readline()
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert log.count("No space left on device") == 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_terminal_that_is_gone_stops_the_broker_in_order_unless_that_is_ignored(
    tmp_path: Path, is_ignored: bool
) -> None:
    terminal, own_side = os.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(own_side, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)

    told, ready = os.pipe()
    line = command("start", "--override", f"log.dirs={tmp_path}", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    process = subprocess.Popen(
        [*line, "--ready-fd", str(ready)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(ready,),
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    try:
        os.close(ready)
        with open(told, "rb") as pipe:
            assert pipe.readline()
        os.close(terminal)  # the kernel sends the signal
        os.close(own_side)
        if is_ignored:
            process.terminate()
        _, log = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert ("broker stops: signal=SIGHUP" in log) != is_ignored
        assert "broker stopped: clean_shutdown=True" in log.splitlines()[-1]
    finally:
        process.kill()
        process.wait()


def test_the_signal_of_log_rotation_opens_the_audit_log_anew(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    line = command(
        "start", "--override", f"log.dirs={tmp_path}/data", "--override", "listeners=PLAINTEXT://127.0.0.1:0"
    )
    line += ["--no-banner", "--log-format", "json", "--override", f"barnabas.audit.log={audit}"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        events = (json.loads(line)["event"] for line in process.stderr)
        assert "broker ready" in events
        audit.rename(tmp_path / "audit.1")
        process.send_signal(signal.SIGHUP)
        assert next(events) == "audit log opened anew"
        process.terminate()
        assert list(events) == ["broker stops", "broker stopped"]
        assert process.wait(PATIENCE_S) == 0
        assert audit.exists()
    finally:
        process.kill()
        process.communicate()


def address_in(banner: str) -> str:
    (line,) = (line for line in banner.splitlines() if "try it" in line)
    return line.split("-b ")[1].split()[0]


def test_version_and_help() -> None:
    assert run("--version").stdout == "barnabas 0.1.0\n"
    answer = run("--help")
    assert answer.returncode == 0
    assert "start" in answer.stdout
    assert "settings" in answer.stdout
    assert "fd" not in run("start", "--help").stdout


def _send_an_interrupt() -> None:
    """In the process to be: it waits there until somebody lets it through."""
    hear_interrupts()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("line", [COMMAND, command()], ids=["command", "server"])
def test_an_interrupt_before_the_server_is_loaded_ends_it_without_a_word(line: list[str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [*line, "start", "--override", f"log.dirs={tmp_path}/data"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=_send_an_interrupt,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
    assert not (tmp_path / "data").exists()


def test_an_interrupt_ends_a_look_into_the_files(tmp_path: Path) -> None:
    """Which waits here for somebody to read what it has printed."""
    (tmp_path / "t-0").mkdir()
    batch = encode_batch([Record(at, 1, b"k", b"v" * 1000, []) for at in range(1000)])
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(batch)
    for arguments in (["dump-log", "--print-data-log", "--files"], ["log", "find", "--jobs", "2", "--limit", "1000"]):
        process = subprocess.Popen(
            [*COMMAND, *arguments, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=hear_interrupts,
        )
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, words) == (130, b"")


def test_no_command_is_a_mistake() -> None:
    assert run().returncode == 2


def test_settings_are_listed() -> None:
    answer = run("settings").stdout
    effective, _, others = answer.partition("Accepted, without effect:")
    assert "log.segment.bytes = 1073741824\n    Size at which" in effective
    assert "\n    int, [14,...]\n" in effective
    assert "    zookeeper.clientCnxnSocket" in others
    everything = run("settings", "--all").stdout
    assert "zookeeper.clientCnxnSocket = null (no effect)" in everything


def test_settings_are_those_that_a_start_would_have(tmp_path: Path) -> None:
    """From the same sources, each value with what it would be otherwise; a secret is not shown."""
    file = tmp_path / "server.properties"
    file.write_text(
        "num.partitions=5\nlog.dirs=/from/file\nlog.segmnt.bytes=7\nzookeeper.ssl.truststore.password=hunter2\n"
        "zookeeper.clientCnxnSocket=x\n"
    )
    environment = {"KAFKA_LOG_DIRS": "/from/environment", "KAFKA_BROKER_ID": "2"}
    answer = run("settings", "--all", str(file), "--override", "broker.id=3", environment=environment)
    assert answer.returncode == 0
    blocks = {block.split(" = ")[0]: block.splitlines() for block in re.split(r"\n(?=\S)", answer.stdout)}
    assert blocks["num.partitions"][0] == "num.partitions = 5"
    assert blocks["num.partitions"][2] == "    int, [1,...]; default 1"
    assert blocks["log.dirs"][0::2] == ["log.dirs = /from/environment", "    string; default null"]
    assert blocks["broker.id"][0] == "broker.id = 3"
    assert blocks["inter.broker.protocol.version"][2] == "    string, a Kafka version"
    assert blocks["zookeeper.ssl.truststore.password"][0::2] == [
        "zookeeper.ssl.truststore.password = [hidden]",
        "    password; default null",
    ]
    assert blocks["zookeeper.clientCnxnSocket"][0] == "zookeeper.clientCnxnSocket = x (no effect)"
    assert "hunter2" not in answer.stdout
    assert answer.stderr == "barnabas: unknown setting log.segmnt.bytes: did you mean log.segment.bytes?\n"
    refused = run("settings", "--override", "log.segment.bytes=1")
    assert (refused.returncode, refused.stdout) == (2, "") and "(valid: [14,...])" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--override", "log.segment.bytes=1"], "log.segment.bytes: Value must be at least 14 (valid: [14,...])"),
        (["--override", "log.segment.bytes"], "--override log.segment.bytes is not of the form name=value"),
        (["--override", "listeners=nonsense"], "nonsense"),
        (["--override", "listeners=SSL://:9093"], "a listener with TLS needs a certificate"),
        (["--override", "authorizer.class.name=org.example.Authorizer"], "this broker runs no Java; it must be empty"),
        (["--override", "zookeeper.connect=x:port"], "zookeeper.connect"),
        (["--topic", "a:b"], "'a:b' is not of the form name[:partitions[:replicas]]"),
        (["/nowhere/server.properties"], "cannot read /nowhere/server.properties"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    answer = run("start", "--override", f"log.dirs={tmp_path}", "--log-level", "error", *arguments)
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("barnabas: ")
    assert said in line


@pytest.mark.parametrize("source", ["option", "override", "environment", "file"])
def test_a_refused_setting_is_a_record_for_programs_that_read_json(source: str, tmp_path: Path) -> None:
    """Wherever the form is asked for: the settings as a whole are not known then."""
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\n" + ("barnabas.log.format=json\n" if source == "file" else ""))
    arguments = {"option": ["--log-format", "json"], "override": ["--override", "barnabas.log.format=json"]}
    environment = {"KAFKA_BARNABAS_LOG_FORMAT": "json"} if source == "environment" else None
    answer = run("start", str(file), *arguments.get(source, []), environment=environment)
    assert answer.returncode == 2
    record = json.loads(answer.stderr)
    assert (record["level"], record["event"]) == ("fatal", "broker not started")
    assert "num.partitions" in record["reason"]


def test_a_secret_in_a_refused_value_is_not_told() -> None:
    answer = run("start", "--override", "ssl.keystore.password=hunter2", "--override", "log.segment.bytes=1")
    assert "hunter2" not in answer.stdout + answer.stderr


def test_a_taken_port_is_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
        answer = run("start", "--override", f"log.dirs={tmp_path}", "--override", listeners)
        http = ["--override", "barnabas.http.host=127.0.0.1", "--override", f"barnabas.http.port={port}"]
        other = run("start", "--override", f"log.dirs={tmp_path}", *http)
    assert answer.returncode == other.returncode == 1
    help_text = "another program has this port, which `ss -ltnp` names; stop it, or set another port"
    reason = f"cannot listen on 127.0.0.1:{port}: Address already in use ({help_text})"
    assert answer.stderr.splitlines()[-1] == f"barnabas: listener PLAINTEXT: {reason}"
    assert (
        other.stderr.splitlines()[-1] == f"barnabas: barnabas.http.host=127.0.0.1, barnabas.http.port={port}: {reason}"
    )


def test_sources_in_order_of_strength_and_topics_from_both(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnum.partitions=5\nlog.segmnt.bytes=7\n")
    environment = {"KAFKA_BROKER_ID": "2", "KAFKA_CREATE_TOPICS": "from-environment:2", "KAFKA_OPTS": "-Xmx1g"}
    arguments = [str(file), "--override", "broker.id=3", "--topic", "from-option", "--log-level", "warn"]
    arguments += ["--override", "background.threads=7", "--override", "zookeeper.clientCnxnSocket=x"]
    arguments += ["--override", "zookeeper.ssl.truststore.password=hunter2"]
    with started(tmp_path, *arguments, environment=environment) as (process, banner):
        assert "broker    3" in banner
        assert f"data      {tmp_path}/data" in banner
        assert topics_of(address_in(banner)) == {"from-environment": 2, "from-option": 5}
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    log = (tmp_path / "log").read_text()
    assert 'reason=unknown setting log.segmnt.bytes: did you mean log.segment.bytes?"' in log
    assert "settings without effect, this broker lacks what they configure: " in log
    assert "settings=background.threads, zookeeper.clientCnxnSocket" in log
    assert "hunter2" not in log
    assert "opts" not in log.lower()


def test_a_stopped_broker_starts_again_with_what_it_had(tmp_path: Path) -> None:
    clusters = []
    for arguments in (["--topic", "kept:3"], []):
        with started(tmp_path, *arguments) as (process, banner):
            assert topics_of(address_in(banner)) == {"kept": 3}
            clusters += [line for line in banner.splitlines() if "cluster" in line]
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert len(set(clusters)) == 1


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with started(tmp_path):
        overrides = ["--override", f"log.dirs={tmp_path}/data", "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
        answer = run("start", *overrides)
        assert answer.returncode == 1
        (line,) = answer.stderr.splitlines()
        assert line == (
            f"barnabas: Failed to acquire the lock {tmp_path}/data/.lock: another broker is using {tmp_path}/data, "
            "or log.dirs names it twice, through a link."
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["listeners=PLAINTEXT://192.0.2.1:9092"], "this machine has no such address"),
        (["zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=50"],
         "no session within 50 ms; last failure: 127.0.0.1:1: Connection refused (zookeeper.connect names the servers"),
        (["barnabas.audit.log=/nowhere/audit.jsonl"], "barnabas.audit.log=/nowhere/audit.jsonl: No such file or directory"),
    ],
)  # fmt: skip
def test_what_does_not_work_out_is_one_line_and_exit_code_1(arguments: list[str], said: str, tmp_path: Path) -> None:
    overrides = [part for each in ("listeners=PLAINTEXT://127.0.0.1:0", *arguments) for part in ("--override", each)]
    answer = run("start", "--override", f"log.dirs={tmp_path}", "--log-level", "error", *overrides)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith("barnabas: ")
    assert said in line


def test_data_of_another_broker_or_cluster_is_refused(tmp_path: Path) -> None:
    with started(tmp_path) as (process, _):
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    overrides = ["--override", f"log.dirs={tmp_path}/data", "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    another = run("start", *overrides, "--override", "broker.id=5")
    assert another.returncode == 1
    (line,) = another.stderr.splitlines()
    assert "The configured broker.id 5 does not match" in line and "for a new broker, name other log.dirs" in line
    meta = tmp_path / "data" / "meta.properties"
    meta.write_text(re.sub(r"cluster\.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", meta.read_text()))
    moved = run("start", *overrides)
    assert moved.returncode == 1
    (line,) = moved.stderr.splitlines()
    assert "does not match AAAAAAAAAAAAAAAAAAAAAA" in line and "this data is another cluster's" in line


def test_http_tells_when_it_is_ready(tmp_path: Path) -> None:
    with started(tmp_path, "--override", "barnabas.http.port=0", "--topic", "t:2") as (_, banner):
        (line,) = (line for line in banner.splitlines() if "/metrics" in line)
        page = urllib.request.urlopen(line.split()[1], timeout=PATIENCE_S).read().decode()
        ready = line.split()[1].replace("metrics", "ready")
        assert urllib.request.urlopen(ready, timeout=PATIENCE_S).status == 200
        rows = dict(row.rsplit(" ", 1) for row in page.splitlines() if row[:1] != "#")
        assert rows["kafka_server_replicamanager_leadercount"] == "2"
        assert rows["kafka_controller_kafkacontroller_activecontrollercount"] == "1"
        assert rows['kafka_log_log_logendoffset{topic="t",partition="1"}'] == "0"


def test_errors_of_the_system_are_told_in_its_words(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    answer = run("start", "--override", f"log.dirs={file}/data", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    assert answer.returncode == 1
    reason = f"Not a directory: {file}/data"
    assert f"error={reason}" in answer.stderr
    assert answer.stderr.splitlines()[-1].endswith(f"{file}/data ({reason}).")
    absent = run("start", str(tmp_path / "absent"))
    assert absent.returncode == 2
    assert absent.stderr == f"barnabas: cannot read {tmp_path}/absent: No such file or directory\n"
    for text in (answer.stderr, absent.stderr):
        assert "Error(" not in text and "Errno" not in text

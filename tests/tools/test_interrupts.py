"""What Ctrl-C and a closed pipe do to commands, which are processes here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.embedded import EmbeddedBroker

ROOT = Path(__file__).parents[2]
RECORDS = 20_000  # more than a pipe takes, so that no command has written everything
PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"auto.create.topics.enable": False}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic("full", 1, 1)])["full"].result()
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("full", f"value {number}")
            producer.poll(0)
        producer.flush()
        yield running


def started(broker: EmbeddedBroker, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli", *arguments, "--bootstrap-server", broker.bootstrap_servers],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Ctrl-C when it has printed its first line."""
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    return ended(process)


def test_a_consumer_that_is_interrupted_leaves_its_group(broker: EmbeddedBroker) -> None:
    code, _, err = interrupted(started(broker, "consume", "full", "--group", "readers", "--from-beginning"))
    assert code == 130
    assert re.fullmatch(
        r"barnabas: interrupted after \d+ records?", err.splitlines()[-1]
    )  # it may tell that it has waited
    code, out, _ = ended(started(broker, "groups", "describe", "readers", "--json"))
    assert code == 0
    assert '"state": "Empty"' in out


def test_a_search_that_is_interrupted_says_that_it_is_incomplete(broker: EmbeddedBroker) -> None:
    code, _, err = interrupted(started(broker, "find", "full", "--value-contains", "value"))
    assert code == 130
    assert re.search(r"the search was interrupted after .* it stopped at full-0 at \d+", err)


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_what_the_parent_has_closed_is_no_error(broker: EmbeddedBroker, closed: str) -> None:
    for command in ("topics list", "produce full", "groups list --json"):
        line = f"exec {sys.executable} -m barnabas.cli {command} --bootstrap-server {broker.bootstrap_servers} {closed}"
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, input="", text=True, capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_output_that_cannot_be_written_is_told(broker: EmbeddedBroker) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "barnabas.cli", "consume", "full", "--until-end", "--from-beginning",
             "--bootstrap-server", broker.bootstrap_servers],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "barnabas: the output cannot be written: No space left on device\n"


def test_a_pipe_that_is_closed_is_the_end_and_no_error(broker: EmbeddedBroker) -> None:
    with started(broker, "consume", "full", "--from-beginning") as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "value 0\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""

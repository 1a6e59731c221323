"""The examples of docs/groups.md, run as they stand there, on brokers of ours and of Apache Kafka 4.3.0. Only the address and
names change, which others may use."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.clients.java_clients import class_path
from tests.interop.conftest import need_java
from tests.interop.groups.members import NEWEST_JAVA
from tests.interop.groups.share_members import create_topic, write
from tests.oracle import java
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.oracle, pytest.mark.long]

PAGE = (REPOSITORY / "docs" / "groups.md").read_text(encoding="utf-8")
SHARE_GROUPS = PAGE.partition("\n## Share groups\n")[2].partition("\n## Metrics and rights\n")[0]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RECORDS = ("book", "lamp", "tea", "chair")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", SHARE_GROUPS, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_examples_of_share_groups(newer: str, fresh: Callable[[str], str], tmp_path: Path) -> None:
    need_java()
    topic, group = fresh("orders"), fresh("parcels")

    def own(text: str) -> str:
        text = text.replace("localhost:9092", newer)
        return re.sub(r"\borders\b", topic, re.sub(r"\bparcels\b", group, text))

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120, check=False
        )

    def barnabas(line: str) -> subprocess.CompletedProcess[str]:
        assert line.startswith("barnabas ")
        words = shlex.split(own(line))[1:]
        return run(sys.executable, "-m", "barnabas.cli", *words, "--bootstrap-server", newer)

    create_topic(newer, topic, 1)
    (setting,) = block("sh").splitlines()
    assert barnabas(setting).returncode == 0
    write(newer, topic, RECORDS)
    (tmp_path / "parcels.py").write_text(own(block("python")))
    program = run(sys.executable, "parcels.py", str(len(RECORDS)))
    assert program.stdout.splitlines() == [f"packed {each}, delivery 1" for each in RECORDS], program.stderr
    write(newer, topic, RECORDS)
    (tmp_path / "Parcels.java").write_text(own(block("java")))
    options = [*java.QUICK_START, java.scratch_option(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    program = run("java", *options, "-cp", class_path(NEWEST_JAVA), "Parcels.java", str(len(RECORDS)))
    assert program.stdout.splitlines() == [f"packed {each}, delivery 1" for each in RECORDS], program.stderr
    check = doctest.OutputChecker().check_output
    for example in re.split(r"^\$ ", block("console"), flags=re.MULTILINE)[1:]:
        line, _, shown = example.partition("\n")

        def is_shown(line: str = line, shown: str = shown) -> bool:
            done = barnabas(line)
            return done.returncode == 0 and check(own(shown), done.stderr + done.stdout, FLAGS)

        assert wait_until(is_shown, 30), (line, barnabas(line))

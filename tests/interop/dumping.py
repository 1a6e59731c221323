"""`barnabas dump-log` and Apache Kafka's DumpLogSegments, run over the same files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.oracle import java, tools

SEGMENT_FILES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")


def reference(files: Sequence[Path], *options: str) -> tuple[list[str], list[str]]:
    """What Apache Kafka's tool prints, and what it complains about."""
    arguments = ["--files", ",".join(map(str, files)), *options]
    command = java.command(
        tools.MAIN_CLASSES["dump-log"], arguments, options=("-Dfile.encoding=UTF-8", *java.QUICK_START)
    )
    return lines_of(command)


def ours(files: Sequence[Path], *options: str) -> tuple[list[str], list[str]]:
    return lines_of([sys.executable, "-m", "barnabas", "dump-log", "--files", ",".join(map(str, files)), *options])


def lines_of(command: list[str]) -> tuple[list[str], list[str]]:
    """Of standard output and standard error."""
    result = subprocess.run(command, capture_output=True, timeout=120, check=False)
    output, complaints = (text.decode("utf-8", "replace").split("\n") for text in (result.stdout, result.stderr))
    return output, complaints

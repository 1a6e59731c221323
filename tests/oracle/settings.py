"""What Apache Kafka 3.9.1 makes of broker settings, without a start: its own class reads them, in one JVM for all cases.

A recording is a JSON file of cases, `{"given": {name: text}, "answer": {...}}`; the answer is `ReadSettings.java`'s. What the
cases of a file have in common stands in BASES; null takes one of these away. `python -m tests.oracle.settings` asks all of
them again and writes the recordings anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.oracle import java
from tests.oracle.provider_files import ENVIRONMENT, FOLDER, make_provider_files

LISTENERS = java.HERE.parent / "broker" / "network" / "listening" / "listeners-3.9.json"
PROVIDERS = java.HERE.parent / "config" / "providers-3.9.json"
JAVA_CLASSES = java.HERE.parent / "config" / "java-classes-3.9.json"

BASES: dict[Path, dict[str, str]] = {
    LISTENERS: {
        "zookeeper.connect": "z:1",
        "inter.broker.listener.name": "A",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ("A", "B", "C", "A_B.C", "A-B")),
    },
    PROVIDERS: {
        "zookeeper.connect": "z:1",
        "config.providers": "env,file,dir",
        **{
            f"config.providers.{name}.class": f"org.apache.kafka.common.config.provider.{class_name}ConfigProvider"
            for name, class_name in (("env", "EnvVar"), ("file", "File"), ("dir", "Directory"))
        },
    },
    JAVA_CLASSES: {"zookeeper.connect": "z:1"},
}

Case = dict[str, Any]


def cases_in(path: Path) -> list[Case]:
    found: list[Case] = json.loads(path.read_text(encoding="utf-8"))
    return found


def given_in(path: Path, case: Case) -> dict[str, str]:
    """All settings of a case."""
    return {name: text for name, text in {**BASES[path], **case["given"]}.items() if text is not None}


def ask(path: Path) -> list[Case]:
    """The cases of a recording with Apache Kafka's answers. FOLDER in a text stands for the folder with the files of
    `provider_files`."""
    with tempfile.TemporaryDirectory() as folder:
        make_provider_files(Path(folder))
        cases = cases_in(path)
        lines = [json.dumps(given_in(path, case)).replace(FOLDER, folder) + "\n" for case in cases]
        command = java.command("", [], options=(*java.QUICK_START, "-Dfile.encoding=UTF-8"))
        command[-1:] = [str(java.HERE / "ReadSettings.java")]
        run = subprocess.run(
            command,
            input="".join(lines),
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, **ENVIRONMENT},
            check=True,
            timeout=120,
        )
        answers = [json.loads(line.replace(folder, FOLDER)) for line in run.stdout.splitlines()]
    if path in (PROVIDERS, JAVA_CLASSES):
        answers = [{key: answer[key] for key in ("values", "error") if key in answer} for answer in answers]
    return [{"given": case["given"], "answer": answer} for case, answer in zip(cases, answers, strict=True)]


def record(path: Path) -> None:
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in ask(path))
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    for each in BASES:
        record(each)

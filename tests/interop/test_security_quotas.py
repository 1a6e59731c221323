"""The steps of docs/security.md about quotas, pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from broker.observability.metric_table import METRICS
from config.broker import BrokerSettings
from tests.interop.conftest import need_java
from tests.interop.test_readme import commands, environment, read, run_shell
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

[QUOTAS] = [
    each for each in re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE) if each.startswith("Quotas\n")
]
START, STEPS = re.findall(r"^```sh\n(.*?)^```", QUOTAS, re.DOTALL | re.MULTILINE)


def test_the_steps_work_when_pasted(tmp_path: Path, commands: Path) -> None:
    need_java()
    bootstrap = f"localhost:{lasting_port()}"
    script = START.replace("localhost:9092", bootstrap).replace("barnabas start", "exec barnabas start")
    log = tmp_path / "log"
    with log.open("w") as written:
        broker = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=environment(commands), stdout=written, stderr=written
        )
    try:
        assert wait_until(lambda: "broker ready" in log.read_text(), 60), log.read_text()
        output = run_shell(STEPS, bootstrap, tmp_path, commands)
    finally:
        broker.terminate()
        broker.wait(30)
    assert re.search(r"client-id 'app' are .*producer_byte_rate=1000000\.0", output), output
    assert re.search(r"default ip.* are connection_creation_rate=20\.0", output), output


def test_settings_and_metrics_that_it_names_exist() -> None:
    names = set(
        re.findall(r"`((?:max|quota|group|queued|socket|barnabas|offsets|producer|transactional)\.[a-z.]+)`", QUOTAS)
    )
    assert len(names) > 15
    assert names <= BrokerSettings.definitions.keys()
    metrics = set(re.findall(r"`((?:kafka|barnabas)_[a-z_]+)`", QUOTAS))
    assert len(metrics) > 6
    assert metrics <= {metric.prometheus_name for metric in METRICS}

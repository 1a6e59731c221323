"""The steps of docs/security.md about quotas, pasted as they stand there; only the port changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.observability.metric_table import METRICS
from config.broker import BrokerSettings
from tests.interop.commands.test_readme import commands, run_shell
from tests.interop.security.security_page import SECTIONS, blocks_of, started

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

START, STEPS = blocks_of("Quotas")


def test_the_steps_work_when_pasted(tmp_path: Path, commands: Path) -> None:
    with started(START, tmp_path, commands) as bootstrap:
        output = run_shell(STEPS, bootstrap, tmp_path, commands)
    assert re.search(r"client-id 'app' are .*producer_byte_rate=1000000\.0", output), output
    assert re.search(r"default ip.* are connection_creation_rate=20\.0", output), output


def test_settings_and_metrics_that_it_names_exist() -> None:
    names = set(
        re.findall(
            r"`((?:max|quota|group|queued|socket|barnabas|offsets|producer|transactional)\.[a-z.]+)`",
            SECTIONS["Quotas"],
        )
    )
    assert len(names) > 15
    assert names <= BrokerSettings.definitions.keys()
    metrics = set(re.findall(r"`((?:kafka|barnabas)_[a-z_]+)`", SECTIONS["Quotas"]))
    assert len(metrics) > 6
    assert metrics <= {metric.prometheus_name for metric in METRICS}

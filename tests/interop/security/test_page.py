"""The steps of docs/security.md, pasted as they stand there but for the port. The first block of a section starts a broker."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.observability.metric_table import METRICS
from config.broker import BrokerSettings
from tests.interop.commands.test_readme import commands, environment, read, run_shell
from tests.interop.conftest import need_java
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

__all__ = ["commands"]

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

SECTIONS = {
    section.partition("\n")[0]: section for section in re.split(r"^## ", read("docs/security.md"), flags=re.MULTILINE)
}


@dataclass
class Pasted:
    """What a section's steps have left: the broker's address, its folder, and the output of each step but the first."""

    section: str
    bootstrap: str
    folder: Path
    commands: Path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def run(self, block: str) -> str:
        return run_shell(block, self.bootstrap, self.folder, self.commands)

    def run_all(self) -> list[str]:
        return [self.run(block) for block in blocks_of(self.section)[1:]]


def blocks_of(section: str, language: str = "sh") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)


def sasl(pasted: Pasted) -> None:
    signed_in, users = pasted.run_all()
    assert "first order" in signed_in
    assert re.search(r"^bob +SCRAM-SHA-512 \(4096 iterations\)$", users, re.MULTILINE), users
    assert "password of bob is deleted" in users
    assert "SCRAM-SHA-512=iterations=4096" in users
    assert not re.search(r"(admin|alice|bob)-secret", pasted.log)


def tls(pasted: Pasted) -> None:
    _, client, renewal = blocks_of("TLS")
    assert "first order" in pasted.run(client)

    def shown() -> str:
        """The certificate that clients are shown: they see it before they have to show their own."""
        host, port = pasted.bootstrap.split(":")
        return ssl.get_server_certificate((host, int(port)))

    before = shown()
    pasted.run(renewal)
    assert wait_until(lambda: shown() != before, 30)
    assert shown().split() == (pasted.folder / "renewed.crt").read_text().split()
    assert "PRIVATE KEY" not in pasted.log


def acls(pasted: Pasted) -> None:
    output = pasted.run_all()
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in output[1]
    assert "first order" in output[2]
    audit_log = (pasted.folder / "audit.log").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in audit_log.splitlines()]
    actions = [(line["principal"], line["api"], line["result"]) for line in lines if line["event"] == "action"]
    assert ("User:admin", "CreateTopics", "NONE") in actions
    assert ("User:admin", "CreateAcls", "NONE") in actions
    assert not re.search(r"(admin|alice)-secret", audit_log + pasted.log)


def quotas(pasted: Pasted) -> None:
    [output] = pasted.run_all()
    assert re.search(r"client-id 'app' are .*producer_byte_rate=1000000\.0", output), output
    assert re.search(r"default ip.* are connection_creation_rate=20\.0", output), output


def bearer_tokens(pasted: Pasted) -> None:
    assert "first order" in pasted.run_all()[0]
    token = (pasted.folder / "alice.token").read_text()
    assert token and token[:40] not in pasted.log


def delegation_tokens(pasted: Pasted) -> None:
    assert "first order" in pasted.run_all()[0]
    found = re.search(r'password="([^"]{80,})"', (pasted.folder / "token.properties").read_text())
    assert found is not None
    for secret in ("alice-secret", "admin-secret", "a-secret-of-all-brokers", found[1]):
        assert secret not in pasted.log


CHECKS: dict[str, Callable[[Pasted], None]] = {
    "SASL": sasl, "TLS": tls, "ACLs": acls, "Quotas": quotas, "Bearer tokens": bearer_tokens,
    "Delegation tokens": delegation_tokens,
}  # fmt: skip


@pytest.mark.parametrize("section", CHECKS)
def test_the_steps_work_when_pasted(section: str, tmp_path: Path, commands: Path) -> None:
    need_java()
    bootstrap, log = f"localhost:{lasting_port()}", tmp_path / "log"
    script = blocks_of(section)[0].replace("localhost:9092", bootstrap).replace("barnabas start", "exec barnabas start")
    with log.open("w") as output:
        broker = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=environment(commands), stdout=output, stderr=output
        )
    try:
        assert wait_until(lambda: "broker ready" in log.read_text(), 60), log.read_text()
        CHECKS[section](Pasted(section, bootstrap, tmp_path, commands))
    finally:
        broker.terminate()
        broker.wait(60)


def test_examples_of_lines_are_json() -> None:
    [block] = blocks_of("ACLs", "json")
    assert [json.loads(line)["event"] for line in block.splitlines()] == ["denied", "action", "login_failed"]


def test_settings_and_metrics_that_quotas_name_exist() -> None:
    prefixes = "max|quota|group|queued|socket|barnabas|offsets|producer|transactional"
    names = set(re.findall(rf"`((?:{prefixes})\.[a-z.]+)`", SECTIONS["Quotas"]))
    assert len(names) > 15
    assert names <= BrokerSettings.definitions.keys()
    metrics = set(re.findall(r"`((?:kafka|barnabas)_[a-z_]+)`", SECTIONS["Quotas"]))
    assert len(metrics) > 6
    assert metrics <= {metric.prometheus_name for metric in METRICS}

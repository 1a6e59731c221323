"""Every example of a cluster has its internal topics before a client needs them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "barnabas.internal.topics.create.enable"


def test_every_example_of_a_cluster_creates_them_early() -> None:
    assert f"--override {NAME}=true" in (ROOT / "Makefile").read_text(encoding="utf-8"), "make cluster"
    assert f"{NAME}=true" in (ROOT / "deploy" / "server.properties").read_text(encoding="utf-8").splitlines()
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8").splitlines()
    variable = f'  KAFKA_{NAME.upper().replace(".", "_")}: "true"'
    clusters = [line for line in compose if line.startswith("  KAFKA_ZOOKEEPER_CONNECT:")]
    assert compose.count(variable) == len(clusters) == 2, "the plain brokers and the secured ones"

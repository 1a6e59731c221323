"""`make spark-cluster` joins no other master."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pipelines.spark_cluster import SparkCluster, SparkClusterError
from tests.oracle.ports import lasting_port


@pytest.mark.parametrize("wanted", ["port", "ui_port"])
def test_a_port_that_another_process_has_is_refused_before_anything_starts(wanted: str, tmp_path: Path) -> None:
    cluster = SparkCluster(tmp_path, port=lasting_port(), ui_port=lasting_port())
    port = getattr(cluster, wanted)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(SparkClusterError) as refused:
        cluster.start()
    assert str(refused.value).startswith(f"port {port} is taken by process {os.getpid()} (")
    assert cluster.processes == {}


def test_a_master_that_ends_is_told_though_another_one_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one takes the port between the look at it and the start of the own one."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "spark-class"
    program.write_text("#!/bin/sh\necho the reason\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr("pipelines.spark_cluster.spark_home", lambda: tmp_path)
    monkeypatch.setattr("pipelines.spark_cluster.require_free", lambda _ports: None)
    cluster = SparkCluster(tmp_path / "data", port=lasting_port(), ui_port=lasting_port())
    with socket.create_server(("127.0.0.1", cluster.port)):
        try:
            with pytest.raises(SparkClusterError, match=r"does not listen on port .*\n.*the reason"):
                cluster.start()
        finally:
            cluster.stop()

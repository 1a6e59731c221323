"""What `python -m barnabas.cluster` shows of the processes it has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from barnabas.cluster import Child, Cluster


def test_brokers_come_first_with_their_addresses_and_process_ids(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for name, number, address in (
        ("zookeeper", 0, "127.0.0.1:2181"),
        ("broker2", 2, "localhost:9093"),
        ("broker1", 1, "a:9"),
    ):
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        http = f"127.0.0.1:809{number}" if number else ""
        cluster.children.append(Child(name, number, address, process, Path(f"/logs/{name}.log"), http=http))
    one, two, three = (str(cluster.children[index].process.pid) for index in (2, 1, 0))
    lines = cluster.table().splitlines()
    assert [line.split() for line in lines] == [
        ["broker.id", "address", "http", "process", "id", "log"],
        ["broker1", "1", "a:9", "127.0.0.1:8091", one, "/logs/broker1.log"],
        ["broker2", "2", "localhost:9093", "127.0.0.1:8092", two, "/logs/broker2.log"],
        ["zookeeper", "-", "127.0.0.1:2181", "-", three, "/logs/zookeeper.log"],
    ]
    assert len({line.index("/logs") for line in lines[1:]} | {lines[0].index("log")}) == 1, "columns are aligned"

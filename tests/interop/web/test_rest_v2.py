"""REST v2 over brokers of both kinds, and a published client of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.running import WRITES, app_client, running_web

pytestmark = pytest.mark.interop
CLIENT = Path(__file__).resolve().parents[1] / "clients" / "rust"
V2 = {"content-type": "application/vnd.kafka.v2+json"}
JSON = {"content-type": "application/vnd.kafka.json.v2+json"}
BUILD_S = 900


async def test_records_are_written_read_committed_and_read_again(bootstrap: str, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("rest-v2"), fresh("group")
    async with app_client(bootstrap, WRITES) as client:
        (cluster,) = (await client.get("/v3/clusters")).json()["data"]
        made = await client.post(
            f"/v3/clusters/{cluster['cluster_id']}/topics", json={"topic_name": topic, "partitions_count": 2}
        )
        assert made.status_code == 201, made.text
        while not (await client.get(f"/topics/{topic}")).is_success:
            pass
        records = [{"key": n, "value": {"n": n}, "partition": n % 2} for n in range(10)]
        rows = (await client.post(f"/topics/{topic}", json={"records": records}, headers=JSON)).json()["offsets"]
        assert [(row["partition"], row["offset"], row["error"]) for row in rows] == [
            (n % 2, n // 2, None) for n in range(10)
        ]
        offsets = await client.get(f"/topics/{topic}/partitions/1/offsets")
        assert offsets.json() == {"beginning_offset": 0, "end_offset": 5}

        async def read(name: str, count: int) -> list[int]:
            given = {"name": name, "format": "json", "auto.offset.reset": "earliest", "fetch.min.bytes": 0}
            assert (await client.post(f"/consumers/{group}", json=given, headers=V2)).is_success
            path = f"/consumers/{group}/instances/{name}"
            await client.post(f"{path}/subscription", json={"topics": [topic]}, headers=V2)
            found: list[dict[str, Any]] = []
            while len(found) < count:
                answer = await client.get(f"{path}/records", params={"max_bytes": 20})
                assert answer.is_success, answer.text
                found += answer.json()
            assert (await client.post(f"{path}/offsets", headers=V2)).is_success
            assert (await client.delete(path)).status_code == 204
            return [each["value"]["n"] for each in found]

        first = await read("one", 4)
        rest = await read("two", 10 - len(first))
        assert sorted([*first, *rest]) == list(range(10))


@pytest.mark.long
@pytest.mark.timeout(BUILD_S + 120)
def test_a_published_client(tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo, of Rust, is not installed")
    folder = shutil.copytree(CLIENT, tmp_path / "rust")
    if subprocess.run(
        ["cargo", "fetch", "--quiet"], cwd=folder, capture_output=True, check=False, timeout=300
    ).returncode:
        pytest.skip("the crates cannot be fetched")
    build = ["cargo", "build", "--quiet"]
    subprocess.run(build, cwd=folder, check=True, timeout=BUILD_S)
    with EmbeddedBroker(["tour"]) as broker, running_web(broker.bootstrap_servers, WRITES) as web:
        words = [str(folder / "target" / "debug" / "rest-v2-tour"), web.url, "tour", "group", "a", "b", "<b>c</b>"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "0 a", "1 b", "2 <b>c</b>"]), done.stderr

"""`python -m benchmarks.web_search [--records 1000000] [--rounds 5]`: a search over a topic by a web process, beside a plain
consumer (librdkafka) that reads the same records from the same broker.

The topic has records of 100 B in one partition. No record fulfils the condition, so that each search looks at all of them:
those of `text` are excluded by the bytes of their batch, each of `negated` is looked at by itself. Rounds alternate;
processor seconds are given for 100 MB of records: the broker's and those of the client (the web process, or this one).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from dataclasses import dataclass, field

import httpx

from benchmarks.brokers import Running, ours
from benchmarks.process import usage
from benchmarks.workloads import consume, fill
from tests.web.running import WebProcess, running_web

VALUE_BYTES = 100
SETTINGS = {"barnabas.web.search.bytes.per.second": str(1 << 30)}
TIMEOUT_S = 600.0
CONDITIONS = {"text": "value:contains:is-in-no-record", "negated": "value:!contains:x"}
CONSUMER = "consumer"


@dataclass(slots=True)
class Figures:
    """Of one way: seconds, and processor seconds of the broker and of the client, of each run."""

    seconds: list[float] = field(default_factory=list)
    broker_cpu_seconds: list[float] = field(default_factory=list)
    client_cpu_seconds: list[float] = field(default_factory=list)


def search(web: WebProcess, topic: str, condition: str, records: int) -> None:
    """Look at every record. Raises AssertionError when it did not."""
    address = f"{web.url}/api/topics/{topic}/messages/search"
    looked = 0
    with httpx.stream("GET", address, params={"where": condition}, timeout=TIMEOUT_S) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name == "progress":
                looked = json.loads(line.removeprefix("data: "))["records_read"]
    assert (name, looked) == ("end", records), (name, looked)


def own_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(broker: Running, web: WebProcess, topic: str, way: str, records: int, figures: Figures) -> None:
    def client_cpu_seconds() -> float:
        return own_cpu_seconds() if way == CONSUMER else usage(web.process.pid).cpu_seconds

    broker_before, client_before, began_s = broker.usage().cpu_seconds, client_cpu_seconds(), time.perf_counter()
    if way == CONSUMER:
        consume(broker.target)
    else:
        search(web, topic, CONDITIONS[way], records)
    figures.seconds.append(time.perf_counter() - began_s)
    figures.broker_cpu_seconds.append(broker.usage().cpu_seconds - broker_before)
    figures.client_cpu_seconds.append(client_cpu_seconds() - client_before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    results = {way: Figures() for way in (CONSUMER, *CONDITIONS)}
    megabytes = arguments.records * VALUE_BYTES // 1_000_000
    with ours() as broker:
        topic = fill(broker.target, value_bytes=VALUE_BYTES, megabytes=megabytes)
        with running_web(broker.target.bootstrap_servers, SETTINGS) as web:
            for number in range(-1, arguments.rounds):
                for way, figures in results.items():
                    measured = figures if number >= 0 else Figures()  # the first round warms the page cache
                    measure(broker, web, topic, way, arguments.records, measured)
    print("| way | records per second | broker's processor s per 100 MB | client's |\n|---|---|---|---|")
    for way, figures in results.items():
        rate = arguments.records / statistics.median(figures.seconds)
        broker_s = statistics.median(figures.broker_cpu_seconds) * 100 / megabytes
        client_s = statistics.median(figures.client_cpu_seconds) * 100 / megabytes
        print(f"| {way} | {rate:,.0f} | {broker_s:.2f} | {client_s:.2f} |")


if __name__ == "__main__":
    main()

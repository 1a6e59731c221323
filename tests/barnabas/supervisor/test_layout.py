"""Who is where: ids, ports, folders and settings of several brokers on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count as counting

import pytest

from barnabas.supervisor.layout import FreePort, Layout, layout_of_many, layout_of_one
from broker.composition import listener_plans
from config.broker import BrokerSettings
from config.errors import ConfigError
from runtime.network.transport import Address

DATA = {"log.dirs": "/a,/b"}
ZOOKEEPER = {"zookeeper.connect": "zk:2181/x"}


def laid_out(given: dict[str, str], count: int = 3, *, first_id: int | None = None, store_port: int = 2181) -> Layout:
    settings = BrokerSettings.from_sources(DATA | given, {}, {})
    return layout_of_many(
        settings,
        listener_plans(settings),
        count,
        first_id=first_id,
        store_port=store_port,
        host_name="here",
        free_port=free_ports(),
    )


def free_ports() -> FreePort:
    ports: Iterator[int] = counting(30_000)
    return lambda host: next(ports)


def of_each(layout: Layout, name: str) -> list[str | None]:
    return [place.overrides.get(name) for place in layout.brokers]


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({}, "broker.id", ["0", "1", "2"]),
        ({"broker.id": "5"}, "broker.id", ["5", "6", "7"]),
        ({"node.id": "5"}, "node.id", ["5", "6", "7"]),
        ({"broker.id": "-1"}, "broker.id", ["0", "1", "2"]),
        ({}, "listeners", [f"PLAINTEXT://localhost:{port}" for port in (9092, 9093, 9094)]),
        (
            {
                "listeners": "IN://:9100,OUT://[::1]:9200",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
                "inter.broker.listener.name": "IN",
            },
            "listeners",
            [f"IN://:{9100 + each},OUT://[::1]:{9200 + each}" for each in range(3)],
        ),
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "listeners", [f"PLAINTEXT://127.0.0.1:{p}" for p in range(30_000, 30_003)]),
        ({}, "advertised.listeners", [None] * 3),
        (
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://outside:19092"},
            "advertised.listeners",
            [f"PLAINTEXT://outside:{port}" for port in (19092, 19093, 19094)],
        ),
        (
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://outside:0"},
            "advertised.listeners",
            ["PLAINTEXT://outside:0"] * 3,
        ),
        ({}, "log.dirs", [f"/a/broker_{each},/b/broker_{each}" for each in range(3)]),
        ({"barnabas.http.port": "8080"}, "barnabas.http.port", ["8081", "8082", "8083"]),
        ({"barnabas.http.port": "0"}, "barnabas.http.port", ["30001", "30002", "30003"]),
        ({}, "barnabas.http.port", [None] * 3),
        ({}, "zookeeper.connect", ["127.0.0.1:2181"] * 3),
        (ZOOKEEPER, "zookeeper.connect", [None] * 3),
        ({}, "barnabas.host.id", ["here"] * 3),
        ({"barnabas.host.id": "m1"}, "barnabas.host.id", [None] * 3),
        ({"barnabas.audit.log": "/log/audit.log"}, "barnabas.audit.log", [f"/log/audit.broker_{e}.log" for e in range(3)]),
        ({"metadata.log.dir": "/m"}, "metadata.log.dir", [f"/m/broker_{each}" for each in range(3)]),
        ({"broker.rack": "r1"}, "broker.rack", [None] * 3),
        ({"broker.id": "999"}, "broker.id.generation.enable", ["false"] * 3),
        ({"zookeeper.ssl.client.enable": "true"}, "zookeeper.ssl.client.enable", ["false"] * 3),
        ({"zookeeper.ssl.client.enable": "true", **ZOOKEEPER}, "zookeeper.ssl.client.enable", [None] * 3),
    ],
)  # fmt: skip
def test_what_differs_of_each_broker(given: dict[str, str], name: str, expected: list[str | None]) -> None:
    assert of_each(laid_out(given), name) == expected


@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [
        ({}, 1, ["1", "1", "1"]),
        ({}, 2, ["2", "2", "1"]),
        ({}, 3, [None, None, None]),
        ({"transaction.state.log.replication.factor": "1"}, 2, ["2", None, "1"]),
        (ZOOKEEPER, 2, [None, None, None]),
    ],
)
def test_internal_topics_have_no_more_replicas_than_there_are_brokers(
    given: dict[str, str], count: int, expected: list[str | None]
) -> None:
    names = (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    )
    overrides = laid_out(given, count).brokers[0].overrides
    assert [overrides.get(name) for name in names] == expected


def test_the_first_id_is_that_of_the_data() -> None:
    layout = laid_out({}, first_id=1001)
    assert [place.broker_id for place in layout.brokers] == [1001, 1002, 1003]
    assert of_each(layout, "broker.id.generation.enable") == ["false"] * 3, "it was generated, and is given now"


def test_the_store_and_the_command_have_places_of_their_own() -> None:
    layout = laid_out({"barnabas.http.port": "8080", "barnabas.http.host": "0.0.0.0"})
    assert (str(layout.http), str(layout.store), layout.store_folder) == (
        "0.0.0.0:8080",
        "127.0.0.1:2181",
        "/a/barnabas_store",
    )
    assert laid_out({}, store_port=0).store is not None
    assert laid_out(ZOOKEEPER).store is None


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"listeners": "A://:9092,B://:9093", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
             "inter.broker.listener.name": "A"},
            "broker 0 (listener B) and broker 1 (listener A) would both listen on port 9093",
        ),
        (
            {"barnabas.http.port": "9090"},
            "broker 0 (listener PLAINTEXT) and broker 1 (barnabas.http.port) would both listen on port 9092",
        ),
        (
            {"listeners": "PLAINTEXT://:2180"},
            "broker 1 (listener PLAINTEXT) and the store (--store-port) would both listen on port 2181",
        ),
        (
            {"listeners": "PLAINTEXT://:9092", "barnabas.http.port": "9094"},
            "the command (barnabas.http.port) and broker 2 (listener PLAINTEXT) would both listen on port 9094",
        ),
        ({"listeners": "PLAINTEXT://:65534"}, "broker 2 (listener PLAINTEXT) would listen on port 65536, above 65535"),
    ],
)  # fmt: skip
def test_a_port_for_two_is_refused_with_the_names_of_both(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        laid_out(given)
    assert line in str(refused.value)


def test_processes_beside_the_brokers_have_ports_of_their_own() -> None:
    both = {"barnabas.web.enable": "true", "barnabas.relay.enable": "true"}
    places = {each.name: each.address for each in laid_out(both | {"barnabas.relay.metrics.port": "0"}).companions}
    assert places == {"relay": Address("localhost", 30_000), "web": Address("127.0.0.1", 8082)}
    assert {each.name: each.address for each in laid_out(both).companions}["relay"] is None
    with pytest.raises(
        ConfigError, match=r"broker 1 .* and the relay process \(barnabas.relay.metrics.port\) would both"
    ):
        laid_out(both | {"barnabas.relay.metrics.port": "9093"})


def test_one_ipv4_and_one_ipv6_address_may_share_ports() -> None:
    laid_out(
        {"listeners": "A://127.0.0.1:9092,B://[::1]:9092", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
         "inter.broker.listener.name": "A"}
    )  # fmt: skip


def test_a_lone_broker_stays_as_it_is_but_for_free_ports() -> None:
    settings = BrokerSettings.from_sources(
        {**DATA, "listeners": "PLAINTEXT://127.0.0.1:0", "barnabas.http.port": "0"}, {}, {}
    )
    (place,) = layout_of_one(settings, listener_plans(settings), free_port=free_ports()).brokers
    assert place.overrides == {"listeners": "PLAINTEXT://127.0.0.1:30000", "barnabas.http.port": "30001"}
    assert place.log_directories == ("/a", "/b")

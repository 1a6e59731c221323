"""The cluster of the tests: ports that stay, members that hang and come back, taps that hear what brokers say."""

from __future__ import annotations

import socket

import pytest

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.differential.wire import NoResponse, Wire
from tests.oracle import java
from tests.oracle.admin import Admin, java_hash
from tests.oracle.barnabas import Barnabas
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import END, FIRST, lasting_port
from tests.oracle.record_cluster import tapped_cluster
from tests.oracle.tap import Taps, request_types


def test_ports_are_free_and_never_given_twice() -> None:
    ports = {lasting_port() for _ in range(47)}
    first = lasting_port(count=3)
    ports |= set(range(first, first + 3))
    assert len(ports) == 50
    assert all(FIRST <= port < END for port in ports)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", ports.pop()))


@pytest.mark.parametrize(("text", "value"), [("", 0), ("a", 97), ("polygenelubricants", 0), ("hello", 99162322)])
def test_groups_are_hashed_as_in_java(text: str, value: int) -> None:
    """The third has Integer.MIN_VALUE, whose absolute value Kafka takes as 0."""
    assert java_hash(text) == value


def test_every_request_is_known_to_the_tap() -> None:
    types = request_types()
    assert {0, 1, 4, 5, 6, 7, 56, 67} <= types.keys()
    assert all(types[key].api_key == key for key in types)


def test_a_tap_lets_through_and_writes_down() -> None:
    with Barnabas() as broker, Taps() as taps:
        tap = taps.open(7, lambda: broker.port)
        wire = Wire("127.0.0.1", tap.port)
        wire.ask(ApiVersionsRequest(), 0)
        answer = wire.ask(MetadataRequest(topics=None), 12)
        wire.close()
    assert answer.brokers[0].port == broker.port
    first, second = taps.heard
    assert (first.api_name, first.version, first.target, first.source) == ("ApiVersions", 0, 7, "differential")
    assert isinstance(second.response, MetadataResponse) and second.response == answer
    assert second.answered_ms is not None and second.answered_ms >= second.at_ms


def test_a_cut_tap_refuses_until_it_is_joined() -> None:
    with Barnabas() as broker, Taps() as taps:
        tap = taps.open(7, lambda: broker.port)
        wire = Wire("127.0.0.1", tap.port)
        assert not isinstance(wire.ask(ApiVersionsRequest(), 0), NoResponse)
        taps.cut(7)
        assert isinstance(wire.ask(ApiVersionsRequest(), 0), NoResponse)
        assert isinstance(Wire("127.0.0.1", tap.port).ask(ApiVersionsRequest(), 0), NoResponse)
        taps.join(7)
        again = Wire("127.0.0.1", tap.port)
        assert not isinstance(again.ask(ApiVersionsRequest(), 0), NoResponse)
        again.close()


@pytest.mark.oracle
@pytest.mark.parametrize("kind", [KAFKA, OURS])
def test_a_member_hangs_dies_and_keeps_its_port(kind: str) -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with Cluster((KAFKA, kind), settings={"default.replication.factor": "2"}) as cluster:
        assert cluster.registered() == {1, 2}
        Admin(cluster).create("t", {0: [2, 1]})
        member = cluster.brokers[2]
        port = member.port
        member.pause()
        cluster.wait_for("its session ends", lambda: cluster.registered() == {1})
        cluster.wait_for("it leads no more", lambda: cluster.leader_id("t") == 1)
        member.resume()
        cluster.wait_for("it is back", lambda: cluster.registered() == {1, 2})
        cluster.wait_in_sync("t")
        member.kill()
        if kind == KAFKA:  # it does not start while its old session lives
            cluster.wait_for("its session ends", lambda: cluster.registered() == {1})
        member.start()
        assert member.port == port
        cluster.wait_in_sync("t")
        folder = cluster.folder
    assert not folder.exists()


@pytest.mark.oracle
def test_taps_hear_what_a_controller_says() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    taps = Taps()
    cluster = tapped_cluster((KAFKA, KAFKA), taps)
    with taps, cluster:
        Admin(cluster).create("t", {0: [1, 2]})
        cluster.wait_for("followers fetch", lambda: any(one.api_name == "Fetch" for one in taps.heard))
    names = {one.api_name for one in taps.heard}
    assert {"UpdateMetadata", "LeaderAndIsr", "Fetch"} <= names

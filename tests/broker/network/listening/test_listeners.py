from __future__ import annotations

import pytest

from broker.network.listening.listeners import (
    ListenerSettings,
    advertised_endpoints,
    endpoint_for,
    needs_advertised,
    needs_host_name,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
    with_host_name,
)
from runtime.network.transport import Address

TWO = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"


def test_the_default_is_plaintext_on_localhost() -> None:
    (plan,) = parse_listeners(ListenerSettings())
    assert (plan.name, plan.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
    assert plan.bind == plan.advertised == Address("localhost", 9092)
    assert plan.is_inter_broker and plan.is_registered


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://:9092", "PLAINTEXT", "", 9092),
        ("plaintext://Broker-1.example.org:0", "PLAINTEXT", "Broker-1.example.org", 0),
        (" INSIDE://10.0.0.1:65535 ", "INSIDE", "10.0.0.1", 65535),
        ("A_B.C://[2001:DB8::0:1]:9092", "A_B.C", "2001:DB8::0:1", 9092),
        ("PLAINTEXT://::1:9092", "PLAINTEXT", "::1", 9092),
        ("PLAINTEXT://[::]:9092", "PLAINTEXT", "::", 9092),
    ],
)
def test_endpoints(text: str, name: str, host: str, port: int) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.name, endpoint.host, endpoint.port) == (name, host, port)
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text",
    ["", "localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://localhost:", "PLAINTEXT://localhost:65536",
     "PLAINTEXT://localhost:-1", "://localhost:9092", "PLAINTEXT://::9092", "PLAINTEXT://[nonsense:x]:9092",
     "PLAINTEXT:/localhost:9092", "PLAINTEXT://localhost:9092/x"],
)  # fmt: skip
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_endpoint(text)


def test_inside_and_outside_work_out_of_the_box() -> None:
    plans = parse_listeners(
        ListenerSettings(
            listeners="INSIDE://:9092,OUTSIDE://:19092",
            advertised_listeners="INSIDE://kafka:9092,OUTSIDE://localhost:19092",
            protocol_map=TWO,
            inter_broker_listener_name="inside",
        )
    )
    assert [(plan.name, plan.advertised, plan.is_inter_broker) for plan in plans] == [
        ("INSIDE", Address("kafka", 9092), True),
        ("OUTSIDE", Address("localhost", 19092), False),
    ]


def test_a_wildcard_answers_with_what_the_client_used() -> None:
    (plan,) = parse_listeners(ListenerSettings(listeners="PLAINTEXT://0.0.0.0:0"))
    assert plan.advertised is None
    assert needs_advertised([plan]) == ["PLAINTEXT"]
    registered = advertised_endpoints([plan], {"PLAINTEXT": Address("0.0.0.0", 40123)})["PLAINTEXT"]
    assert registered.port == 40123
    assert endpoint_for(plan, registered, Address("192.168.1.5", 40123)) == Address("192.168.1.5", 40123)


def test_the_advertised_port_follows_a_free_one() -> None:
    plans = parse_listeners(
        ListenerSettings(listeners="PLAINTEXT://localhost:0", advertised_listeners="PLAINTEXT://example.org:0")
    )
    bound = {"PLAINTEXT": Address("localhost", 4711)}
    assert advertised_endpoints(plans, bound) == {"PLAINTEXT": Address("example.org", 4711)}
    plans = parse_listeners(ListenerSettings(listeners="PLAINTEXT://localhost:0"))
    assert advertised_endpoints(plans, bound) == {"PLAINTEXT": Address("localhost", 4711)}
    registered = Address("localhost", 4711)
    assert endpoint_for(plans[0], registered, Address("127.0.0.1", 4711)) == registered


def test_a_listener_that_is_not_advertised_is_open_and_registered_nowhere() -> None:
    plans = parse_listeners(
        ListenerSettings(
            listeners="PLAINTEXT://:9092,EXTRA://:9093",
            advertised_listeners="PLAINTEXT://kafka:9092",
            protocol_map="PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
        )
    )
    bound = {plan.name: plan.bind for plan in plans}
    assert list(advertised_endpoints(plans, bound)) == ["PLAINTEXT"]
    assert needs_advertised(plans) == []


def test_endpoints_are_registered_in_the_order_of_advertised_listeners() -> None:
    plans = parse_listeners(
        ListenerSettings(
            listeners="A://:1,B://:2,C://:3,D://:4",
            advertised_listeners="D://d:4,A://a:1,C://c:3",
            protocol_map="A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,D:PLAINTEXT",
            inter_broker_listener_name="A",
        )
    )
    assert [plan.name for plan in plans] == ["A", "B", "C", "D"]
    bound = {plan.name: plan.bind for plan in plans}
    assert list(advertised_endpoints(plans, bound)) == ["D", "A", "C"]


def test_an_empty_advertised_host_is_the_name_of_the_machine() -> None:
    settings = ListenerSettings(
        listeners="INSIDE://:9092,OUTSIDE://:19092",
        advertised_listeners="INSIDE://:9092,OUTSIDE://localhost:19092",
        protocol_map=TWO,
        inter_broker_listener_name="INSIDE",
    )
    plans = parse_listeners(settings)
    assert needs_host_name(plans, has_others=False) and needs_host_name(plans, has_others=True)
    inside, outside = with_host_name(plans, "kafka-1.example.org")
    assert inside.advertised == Address("kafka-1.example.org", 9092)
    assert outside.advertised == Address("localhost", 19092)


def test_the_name_of_the_machine_is_not_looked_up_in_vain() -> None:
    everywhere = parse_listeners(ListenerSettings(listeners="PLAINTEXT://:9092"))
    assert needs_host_name(everywhere, has_others=True) and not needs_host_name(everywhere, has_others=False)
    named = parse_listeners(ListenerSettings(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://h:9092"))
    assert not needs_host_name(named, has_others=True)


def test_one_ipv4_and_one_ipv6_address_may_share_a_port() -> None:
    settings = ListenerSettings(listeners="A://127.0.0.1:9092,B://[::1]:9092", protocol_map="A:PLAINTEXT,B:PLAINTEXT",
                                inter_broker_listener_name="A")  # fmt: skip
    assert [plan.bind.port for plan in parse_listeners(settings)] == [9092, 9092]


def test_two_listeners_may_both_ask_for_a_free_port() -> None:
    settings = ListenerSettings(
        listeners="INSIDE://:0,OUTSIDE://:0", protocol_map=TWO, inter_broker_listener_name="INSIDE"
    )
    assert len(parse_listeners(settings)) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ListenerSettings(listeners=","), "at least one"),
        (ListenerSettings(listeners="A://:1,a://:2"), "different name"),
        (ListenerSettings(listeners="INSIDE://h:1,OUTSIDE://h:1", protocol_map=TWO), "port 1 is used more than once"),
        (ListenerSettings(listeners="INSIDE://10.0.0.1:1,OUTSIDE://10.0.0.2:1", protocol_map=TWO), "more than once"),
        (ListenerSettings(listeners="UNKNOWN://:9092"), "no security protocol for listener UNKNOWN"),
        (ListenerSettings(advertised_listeners="PLAINTEXT://0.0.0.0:9092"), "cannot connect to 0.0.0.0"),
        (ListenerSettings(advertised_listeners="PLAINTEXT://[::]:9092"), "cannot connect to ::"),
        (ListenerSettings(listeners=""), "at least one listener"),
        (ListenerSettings(advertised_listeners=" , "), "at least one listener"),
        (ListenerSettings(advertised_listeners="SSL://kafka:9092"), "advertised.listeners names SSL"),
        (ListenerSettings(advertised_listeners="kafka:9092"), "advertised.listeners=kafka:9092"),
        (ListenerSettings(inter_broker_listener_name="SSL"), "is not among the listeners"),
        (ListenerSettings(inter_broker_listener_name="SSL", security_inter_broker_protocol="SSL"), "only one"),
        (ListenerSettings(listeners="INSIDE://:1,OUTSIDE://:2", protocol_map=TWO), "set inter.broker.listener.name"),
        (
            ListenerSettings(
                listeners="INSIDE://:1,OUTSIDE://:2", advertised_listeners="OUTSIDE://h:2", protocol_map=TWO,
                inter_broker_listener_name="INSIDE",
            ),
            "must be one of the names in advertised.listeners",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(settings: ListenerSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_listeners(settings)


def test_protocol_map() -> None:
    assert parse_protocol_map(" a:plaintext , B:SASL_SSL,") == {"A": "PLAINTEXT", "B": "SASL_SSL"}
    for text, message in (("A", "NAME:PROTOCOL"), ("A:TELNET", "'TELNET'"), ("A:SSL,a:SSL", "twice"), (":SSL", "NAME")):
        with pytest.raises(ValueError, match=message):
            parse_protocol_map(text)

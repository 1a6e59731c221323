"""What a started broker says of itself."""

from __future__ import annotations

import pytest

from broker.banner import BannerFacts, banner, bootstrap_server
from broker.network.listening.listeners import ListenerSettings, parse_listeners
from runtime.network.transport import Address


def test_the_banner_tells_every_listener_and_how_to_try_it() -> None:
    plans = parse_listeners(
        ListenerSettings(
            listeners="INSIDE://:29092,OUTSIDE://0.0.0.0:0",
            advertised_listeners="INSIDE://kafka:29092",
            protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            inter_broker_listener_name="INSIDE",
        )
    )
    bound = {"INSIDE": Address("", 29092), "OUTSIDE": Address("0.0.0.0", 41234)}
    text = banner(BannerFacts("0.1.0", "abc", 7, plans, bound, ["/data"], Address("localhost", 8080), 123))
    assert "Barnabas 0.1.0 is ready, after 0.12 s" in text
    assert "cluster   abc" in text
    assert "broker    7" in text
    assert "INSIDE on *:29092, advertised as kafka:29092" in text
    assert "OUTSIDE on 0.0.0.0:41234" in text
    assert "data      /data" in text
    assert "http      http://localhost:8080/metrics" in text
    assert "kcat -b localhost:29092 -L" in text


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://:9092", "localhost:5"),
        ("PLAINTEXT://[::1]:9092", "[::1]:5"),
        ("PLAINTEXT://127.0.0.1:0", "127.0.0.1:5"),
    ],
)
def test_where_a_client_on_this_machine_connects(listeners: str, address: str) -> None:
    (plan,) = parse_listeners(ListenerSettings(listeners=listeners))
    assert bootstrap_server(plan, {"PLAINTEXT": Address("x", 5)}) == address

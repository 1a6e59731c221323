"""Connections are kept; a broker that was not reached is left alone for longer and longer."""

from __future__ import annotations

import random
from typing import Any

import pytest

from client.attempts import FIRST_ANSWER_S
from client.blocking.attempts import Surroundings
from client.blocking.connections import Connections
from client.settings.values import ClientSettings

A, B, C = ("a", 1), ("b", 1), ("c", 1)


class Opened:
    is_usable = True

    def close(self) -> None:
        self.is_usable = False


class Network:
    """Addresses in `down` refuse connections."""

    def __init__(self) -> None:
        self.down: set[tuple[str, int]] = set()
        self.slept_s: list[float] = []
        self.firsts_s: list[float] = []
        surroundings = Surroundings(lambda: sum(self.slept_s), self.slept_s.append, randomness=random.Random(3))
        self.connections = Connections(ClientSettings((C,)), surroundings, self.connect)

    def connect(self, host: str, port: int, _settings: object, *, first_s: float, most_s: float) -> Any:
        self.firsts_s.append(first_s)
        assert most_s == 30
        if (host, port) in self.down:
            raise ConnectionRefusedError
        return Opened()

    def fail(self) -> None:
        with pytest.raises(ConnectionRefusedError):
            self.connections.to(A, 30)


def test_a_connection_is_kept_until_it_is_closed() -> None:
    connections = Network().connections
    first = connections.to(A, 30)
    assert connections.to(A, 30) is first
    assert connections.address_of(first) == A
    first.close()
    assert connections.to(A, 30) is not first


def test_pauses_grow_and_begin_anew_when_the_broker_is_reached() -> None:
    network = Network()
    network.down = {A}
    for _ in range(4):
        network.fail()
    assert network.slept_s == pytest.approx([0.05, 0.1, 0.2], rel=0.2)
    assert network.firsts_s == [FIRST_ANSWER_S, 30, 30, 30]
    network.down.clear()
    network.connections.to(A, 30)
    network.connections.drop(A)
    network.down = {A}
    slept = len(network.slept_s)
    network.fail()
    network.fail()
    assert network.slept_s[slept:] == pytest.approx([0.05], rel=0.2)


def test_who_is_asked_first() -> None:
    network = Network()
    network.connections.to(B, 30)
    network.down = {A}
    assert network.connections.candidates([A, B]) == [B, A, C]
    network.fail()
    assert network.connections.candidates([A, B]) == [B, C, A]

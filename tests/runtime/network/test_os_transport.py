from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import pathlib
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from runtime.network import os_addresses
from runtime.network.os_addresses import FAMILY_MISSING
from runtime.network.os_connection import WRITE_HIGH_WATER_BYTES
from runtime.network.os_transport import OsNetwork, SocketOptions
from tests.runtime.recorder import Recorder

LOOPS: list[Callable[[Coroutine[Any, Any, Any]], Any]] = [asyncio.run, uvloop.run]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    return request.param  # type: ignore[no-any-return]


def test_bytes_go_both_ways_and_the_end_is_heard(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        network = OsNetwork()
        served: list[Recorder] = []

        def serve() -> Recorder:
            served.append(Recorder(echo=True))
            return served[-1]

        listener = await network.listen("127.0.0.1", 0, serve)
        client = Recorder()
        connection = await network.connect("127.0.0.1", listener.address.port, client)
        connection.write([b"abc", memoryview(b"d" * 5000), bytearray(b"e")])
        await client.until(lambda: len(client.data) == 5004)
        assert client.data == b"abc" + b"d" * 5000 + b"e"
        assert served[0].connection is not None
        assert served[0].connection.peer == connection.local
        assert served[0].connection.local == connection.peer
        connection.close()
        connection.write([b"dropped"])
        await served[0].until(lambda: "disconnected" in served[0].events)
        await client.until(lambda: "disconnected" in client.events)
        assert served[0].events == client.events == ["connected", "disconnected"]
        await listener.close()
        with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel says
            await network.connect("127.0.0.1", listener.address.port, Recorder())

    run(main())


def test_a_slow_reader_pauses_the_writer(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        network = OsNetwork()
        served = Recorder()
        listener = await network.listen("127.0.0.1", 0, lambda: served)
        client = Recorder(buffer_bytes=1 << 20)
        connection = await network.connect("127.0.0.1", listener.address.port, client)
        await served.until(lambda: served.connection is not None)
        connection.pause_reading()
        connection.pause_reading()
        total = 0
        assert served.connection is not None
        while "paused" not in served.events:
            served.connection.write([bytes(WRITE_HIGH_WATER_BYTES)])
            total += WRITE_HIGH_WATER_BYTES
            assert total < 100_000_000
            await asyncio.sleep(0)
        assert served.connection.unsent_bytes() > 0
        connection.resume_reading()
        await client.until(lambda: len(client.data) == total)
        await served.until(lambda: served.events[-1] == "resumed")
        connection.abort()
        await served.until(lambda: "disconnected" in served.events)
        await listener.close()

    run(main())


def test_the_last_descriptors_are_not_for_those_who_connect(
    run: Callable[[Coroutine[Any, Any, Any]], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Else whoever opens connections without an end takes the log directories offline."""

    async def ask(last_descriptor: int) -> tuple[bool, list[Recorder]]:
        """Whether two clients, one after the other, were served, and by whom."""
        network, served = OsNetwork(SocketOptions(last_descriptor=last_descriptor)), list[Recorder]()

        def serve() -> Recorder:
            served.append(Recorder(echo=True))
            return served[-1]

        answers = []
        listener = await network.listen("127.0.0.1", 0, serve)
        try:
            for _ in range(2):
                client = Recorder()
                connection = await network.connect("127.0.0.1", listener.address.port, client)
                connection.write([b"x"])
                await client.until(lambda client=client: bool(client.data) or "disconnected" in client.events)
                answers.append(bool(client.data))
                connection.abort()
        finally:
            await listener.close()
        assert len(set(answers)) == 1
        return answers[0], served

    async def main() -> None:
        is_served, served = await ask(0)
        assert not is_served and not any(each.events for each in served), "who was refused was told to nobody"
        told = [record for record in caplog.records if record.name == "runtime.network.os_listener"]
        assert len(told) == 1 and "last_descriptor=0 refused_connections=1" in told[0].getMessage()
        is_served, served = await ask(1 << 20)
        assert is_served
        for each in served:
            await each.until(lambda each=each: each.events == ["connected", "disconnected"])

    with caplog.at_level(logging.WARNING):
        run(main())


def test_localhost_is_both_loopbacks_on_one_port(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")

    async def main() -> None:
        network = OsNetwork()
        listener = await network.listen("localhost", 0, lambda: Recorder())
        hosts = []
        for host in ("127.0.0.1", "::1"):
            connection = await network.connect(host, listener.address.port, Recorder())
            hosts.append(connection.peer.host)
            connection.abort()
        assert hosts == ["127.0.0.1", "::1"]
        await listener.close()

    run(main())


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"])
def test_every_wildcard_takes_both_families(run: Callable[[Coroutine[Any, Any, Any]], Any], host: str) -> None:
    async def main() -> None:
        network = OsNetwork()
        listener = await network.listen(host, 0, lambda: Recorder())
        for near in ("127.0.0.1", *(["::1"] if has_ipv6() else [])):
            connection = await network.connect(near, listener.address.port, Recorder())
            assert connection.local.host == near
            connection.abort()
        await listener.close()

    run(main())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "localhost"])
@pytest.mark.parametrize("missing", sorted(FAMILY_MISSING))
def test_a_machine_without_ipv6_listens_on_what_it_has(
    run: Callable[[Coroutine[Any, Any, Any]], Any], host: str, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = os_addresses._bind

    def bind_ipv4(address: Any, port: int) -> socket.socket:
        if address.family == socket.AF_INET6:
            raise OSError(missing, "no IPv6 here")
        return bind(address, port)

    monkeypatch.setattr(os_addresses, "_bind", bind_ipv4)

    async def main() -> None:
        network = OsNetwork()
        listener = await network.listen(host, 0, lambda: Recorder())
        connection = await network.connect("127.0.0.1", listener.address.port, Recorder())
        connection.abort()
        await listener.close()
        with pytest.raises(OSError, match="no IPv6 here"):
            await network.listen("::1", 0, lambda: Recorder())

    run(main())


def test_a_port_that_is_taken_on_one_family_is_refused(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    """As by a socket of both families: nobody else answers on one of them."""
    if not has_ipv6():
        pytest.skip("no IPv6 here")

    async def main() -> None:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match=rf"cannot listen on \[::\]:{port}: Address already in use"):
                await OsNetwork().listen("0.0.0.0", port, lambda: Recorder())

    run(main())


def is_up(interface: str) -> bool:
    """One that is not, such as a bridge of Docker without containers, has an address that does not answer."""
    return pathlib.Path(f"/sys/class/net/{interface}/operstate").read_text().strip() == "up"


def test_a_link_local_address_is_bound_on_its_interface(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    found: set[str] = set()
    table = pathlib.Path("/proc/net/if_inet6")
    lines = table.read_text().splitlines() if has_ipv6() and table.exists() else []
    for address, *_, interface in (line.split() for line in lines):
        if address.startswith("fe80") and is_up(interface):
            found.add(f"{ipaddress.IPv6Address(int(address, 16))}%{interface}")
    if not found:
        pytest.skip("no link-local address here")

    async def main() -> None:
        network = OsNetwork()
        for host in found:
            listener = await network.listen(host, 0, lambda: Recorder())
            connection = await network.connect(host, listener.address.port, Recorder())
            assert connection.local.host.partition("%")[0] == host.partition("%")[0]
            connection.abort()
            await listener.close()

    run(main())


def test_a_port_in_use_is_named(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        network = OsNetwork()
        first = await network.listen("127.0.0.1", 0, lambda: Recorder())
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{first.address.port}"):
            await network.listen("127.0.0.1", first.address.port, lambda: Recorder())
        await first.close()

    run(main())


def test_a_host_that_nobody_knows_is_named(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match=r"cannot listen on not a name:9092: .*not known"):
            await OsNetwork().listen("not a name", 9092, lambda: Recorder())

    run(main())


def test_a_lookup_that_nobody_waits_for_any_more_fails_in_silence(
    run: Callable[[Coroutine[Any, Any, Any]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names leave the DNS while a machine is away, and who connects gives up first."""
    unknown = "not a name"  # refused without asking a server
    complaints: list[dict[str, Any]] = []
    given_up, look_up = threading.Event(), socket.getaddrinfo

    def slow(*arguments: Any) -> Any:
        assert given_up.wait(60)
        return look_up(*arguments)

    # Of asyncio, whose thread may answer before anybody waits; uvloop has its own.
    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        for _ in range(20):
            attempt = asyncio.create_task(OsNetwork().connect(unknown, 1, Recorder()))
            await asyncio.sleep(0)  # it has asked
            attempt.cancel()
            await asyncio.wait([attempt])
            assert attempt.cancelled()
        given_up.set()
        for _ in range(20):  # lookups are answered about in order: these end after those above
            with pytest.raises(socket.gaierror):
                await loop.getaddrinfo(unknown, 1)
        gc.collect()

    run(main())
    assert complaints == []


def test_connecting_to_an_unknown_name_is_refused(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match=r"not known|nodename nor servname"):
            await OsNetwork().connect("not a name", 1, Recorder())

    run(main())


def test_every_address_of_a_name_is_tried(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def main() -> None:
        network = OsNetwork()
        listener = await network.listen("127.0.0.1", 0, Recorder)  # one of the two that localhost stands for
        client = Recorder()
        connection = await network.connect("localhost", listener.address.port, client)
        assert connection.peer == listener.address
        assert client.events == ["connected"]
        connection.abort()
        await client.until(lambda: client.events == ["connected", "disconnected"])
        await listener.close()
        with pytest.raises(OSError, match=r"(?i)connect"):
            await network.connect("localhost", listener.address.port, Recorder())

    run(main())


def test_a_paused_listener_accepts_what_waits_when_it_is_resumed(
    run: Callable[[Coroutine[Any, Any, Any]], Any],
) -> None:
    async def main() -> None:
        network = OsNetwork()
        served: list[Recorder] = []

        def serve() -> Recorder:
            served.append(Recorder(echo=True))
            return served[-1]

        listener = await network.listen("127.0.0.1", 0, serve)
        first, second = Recorder(), Recorder()
        await network.connect("127.0.0.1", listener.address.port, first)
        await first.until(lambda: len(served) == 1)
        for _ in range(3):
            listener.pause()
            listener.resume()
        listener.pause()
        connection = await network.connect("127.0.0.1", listener.address.port, second)
        connection.write([b"waits"])
        connection = first.connection
        assert connection is not None
        connection.write([b"goes on"])
        await first.until(lambda: first.data == b"goes on")
        assert len(served) == 1
        listener.resume()
        listener.resume()
        await second.until(lambda: second.data == b"waits")
        listener.pause()
        listener.resume()
        await listener.close()
        for client in (first, second):
            assert client.connection is not None
            client.connection.abort()
        for one in served:
            await one.until(lambda one=one: "disconnected" in one.events)
        with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel says
            await network.connect("127.0.0.1", listener.address.port, Recorder())

    run(main())

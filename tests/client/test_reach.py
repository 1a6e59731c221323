"""Why no broker answers: each cause is another line."""

from __future__ import annotations

import errno
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from barnabas.embedded import EmbeddedBroker
from client import reach
from client.reach import Access, address_of, unreached_text, why_unreached

PLAIN = Access("PLAINTEXT", None, None)
LOGIN = Access("SASL_PLAINTEXT", None, "SCRAM-SHA-512")
Answer = Callable[[socket.socket], None]


def context(trusted: str | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=trusted)
    made.check_hostname = False
    made.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT  # Python's default from 3.13 on
    return made


def why(server: str, access: Access) -> str | None:
    return why_unreached([server], access)[server]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Whoever connects is answered by `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=answer_and_close, args=(connection,)))
                threads[-1].start()

        def answer_and_close(connection: socket.socket) -> None:
            with connection:
                answer(connection)

        threads: list[threading.Thread] = []
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in threads:
                each.join()


def http(connection: socket.socket) -> None:
    """As most servers: it answers what has the end of a line."""
    data = b""
    while b"\n" not in data:
        more = connection.recv(1000)
        if not more:
            return
        data += more
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def silent(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.recv(1000)  # until the other side closes


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[str, str]]:
    """Address and authority of a broker with TLS and logins."""
    with EmbeddedBroker(security="sasl_ssl") as broker:
        settings = broker.client_settings()
        yield broker.bootstrap_servers, settings["ssl.ca.location"]


def test_what_is_right_is_reached(plain: str, secured: tuple[str, str]) -> None:
    assert why(plain, PLAIN) is None
    assert why(secured[0], Access("SASL_SSL", context(secured[1]), "SCRAM-SHA-512")) is None


def test_a_name_a_port_and_a_protocol_that_are_wrong_are_different_lines(plain: str, secured: tuple[str, str]) -> None:
    tls, authority = secured
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{unused.getsockname()[1]}"
        assert why(closed, PLAIN) == f"{closed} refuses connections: nothing listens there"
    assert re.fullmatch(
        r"the name no\.such\.host\.invalid does not resolve \(.*\)", str(why("no.such.host.invalid:1", PLAIN))
    )
    assert why(tls, PLAIN) == f"{tls} speaks TLS: security.protocol=PLAINTEXT does not, SSL does"
    assert why(tls, LOGIN) == f"{tls} speaks TLS: security.protocol=SASL_PLAINTEXT does not, SASL_SSL does"
    assert why(plain, Access("SSL", context(), None)) == (
        f"{plain} speaks no TLS: security.protocol=SSL does, PLAINTEXT does not"
    )
    assert str(why(tls, Access("SSL", context(), None))).startswith(f"the certificate of {tls} is not accepted: ")
    assert re.fullmatch(
        rf"{tls} wants a login \(.*SCRAM-SHA-512.*\): security.protocol=SSL has none, SASL_SSL has one",
        str(why(tls, Access("SSL", context(authority), None))),
    )
    assert why(plain, LOGIN) == f"{plain} takes no login: security.protocol=SASL_PLAINTEXT has one, PLAINTEXT has none"
    assert re.fullmatch(
        rf"{tls} does not take sasl.mechanism=GSSAPI, but .*",
        str(why(tls, Access("SASL_SSL", context(authority), "GSSAPI"))),
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (http, "an HTTP server answers at {}, no Kafka broker"),
        (silent, "{} takes the connection and does not answer within 0.8 s"),
        (lambda connection: connection.sendall(b"SSH-2.0-x\r\n"), "what answers at {} is no Kafka broker"),
        (lambda connection: None, "{} closes the connection: it is no Kafka broker, or does not want this client"),
    ],
)
def test_others_that_answer_are_told(answer: Answer, text: str) -> None:
    with server(answer) as address:
        assert why(address, PLAIN) == text.format(address)


def test_an_http_server_is_one_for_a_client_with_tls_too() -> None:
    with server(http) as address:
        assert why(address, Access("SSL", context(), None)) == f"an HTTP server answers at {address}, no Kafka broker"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), "there is no route to 10.0.0.1:9092 (No route to host)"),
        (
            OSError(errno.ENETUNREACH, "Network is unreachable"),
            "there is no route to 10.0.0.1:9092 (Network is unreachable)",
        ),
        (TimeoutError(), "10.0.0.1:9092 does not answer: no connection within 1 s (a firewall, or a host that is off)"),
        (OSError(errno.EACCES, "Permission denied"), "10.0.0.1:9092 cannot be reached: Permission denied"),
    ],
)
def test_a_network_without_a_way_is_told(error: OSError, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_address: object, _limit_s: float) -> socket.socket:
        raise error

    monkeypatch.setattr(reach.socket, "create_connection", refuse)
    assert why("10.0.0.1:9092", PLAIN) == text


def test_one_of_several_that_answers_is_enough(plain: str) -> None:
    assert unreached_text([plain, "no.such.host.invalid:1"], PLAIN) is None
    told = unreached_text(["no.such.host.invalid:1", "no.other.host.invalid"], PLAIN)
    assert told is not None and "; the name no.other.host.invalid does not resolve" in told


@pytest.mark.parametrize(
    ("why", "is_the_end"),
    [
        ("h:1 refuses connections: nothing listens there", False),
        ("h:1 takes the connection and does not answer within 0.8 s", False),
        ("h:1 does not answer: no connection within 1 s (a firewall, or a host that is off)", False),
        ("h:1 speaks TLS: security.protocol=PLAINTEXT does not, SSL does", True),
        ("an HTTP server answers at h:1, no Kafka broker", True),
    ],
)
def test_waiting_helps_against_who_may_be_slow_or_starting(why: str, is_the_end: bool) -> None:
    assert reach.is_final(why) is is_the_end


@pytest.mark.parametrize(
    ("text", "address"),
    [("h:1", ("h", 1)), ("h", ("h", 9092)), ("[::1]:2", ("::1", 2)), ("[::1]", ("::1", 9092)), ("SSL://h:3", ("h", 3))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address

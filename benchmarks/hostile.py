"""What a hostile client does to others: `python -m benchmarks.hostile [--seconds 6] [--rounds 3]`.

A good client sends one record after the other over a connection that it has, and counts how long each takes. Beside it a
hostile one in a process of its own, on a listener with SASL:

    without credentials    connects, sends what only an authenticated client may, and is closed; again, as fast as it can
    wrong credentials      the same with a wrong password
    with a quota           has the right password, and sends all it can: its quota is 1 MB/s

Both brokers, ours and Apache Kafka 3.9.1, are measured alike, in turn, with `max.connection.creation.rate` for the listener. A
figure is the median over the rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event

from benchmarks.brokers import KAFKA_OPTIONS
from benchmarks.wire import connect, produce_frame
from benchmarks.workloads import quantile
from protocol.header import decode_response, encode_request
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Request
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port

Address = tuple[str, int]
USER, PASSWORD = "mallory", "mallory-secret"
QUOTA_BYTES_PER_SECOND = 1_000_000
CONNECTIONS_PER_SECOND = 100
HOSTILE_CONNECTIONS = 8
PAUSE_S = 0.002
TOPIC = "t"


def ask(stream: socket.socket, request: Request, version: int) -> bytes:
    """Send a request, and return the frame of its response. Raises ConnectionError."""
    stream.sendall(b"".join(encode_request(request, version, 1, "bench")))
    return answer(stream)


def answer(stream: socket.socket) -> bytes:
    head = stream.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionResetError
    return stream.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)


# --- the clients ---


def good(address: Address, seconds: float) -> list[float]:
    """Milliseconds of each request, sorted."""
    frame, samples = produce_frame(TOPIC, 0, 100), []
    with connect(address) as stream:
        stream.settimeout(30)
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            stream.sendall(frame)
            answer(stream)
            samples.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)
    return sorted(samples)


def without_credentials(address: Address, over: Event) -> None:
    frame = b"".join(encode_request(MetadataRequest(topics=None), 9, 1, "hostile"))
    while not over.is_set():
        with suppress(OSError), connect(address) as stream:
            stream.settimeout(2)
            stream.sendall(frame)
            stream.recv(64)


def wrong_credentials(address: Address, over: Event) -> None:
    while not over.is_set():
        with suppress(OSError), connect(address) as stream:
            stream.settimeout(2)
            sign_in(stream, "wrong")


def with_a_quota(address: Address, over: Event) -> None:
    """Sends without waiting for responses."""
    frame, streams = produce_frame(TOPIC, 1, 100_000), []
    for _ in range(HOSTILE_CONNECTIONS):
        stream = connect(address)
        assert sign_in(stream, PASSWORD) == 0
        stream.setblocking(False)
        streams.append((stream, bytearray()))
    while not over.is_set():
        for stream, unsent in streams:
            if len(unsent) < len(frame):
                unsent += frame
            with suppress(BlockingIOError):
                del unsent[: stream.send(unsent)]
            with suppress(BlockingIOError):
                stream.recv(1 << 16)
        time.sleep(0.0005)


def sign_in(stream: socket.socket, password: str) -> int:
    """Return the error code. Raises OSError."""
    ask(stream, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    frame = ask(stream, SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{password}".encode()), 2)
    response = decode_response(frame, SaslAuthenticateResponse, 2)[1]
    return response.error_code


HOSTILE: dict[str, Callable[[Address, Event], None] | None] = {
    "alone": None,
    "without credentials": without_credentials,
    "wrong credentials": wrong_credentials,
    "with a quota": with_a_quota,
}


# --- the brokers ---


@contextmanager
def running(kind: str) -> Iterator[tuple[Address, Address]]:
    """The addresses of a broker's two listeners: of the good client, and of the hostile one."""
    inside, outside = lasting_port(), lasting_port()
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    settings = {
        "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "advertised.listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.outside.plain.sasl.jaas.config": login,
        "listener.name.outside.max.connection.creation.rate": str(CONNECTIONS_PER_SECOND),
    }
    broker: Broker = (
        Barnabas(settings, port=inside) if kind == "ours" else ApacheKafka(settings, KAFKA_OPTIONS, port=inside)
    )
    with broker:
        prepare(("127.0.0.1", inside))
        yield ("127.0.0.1", inside), ("127.0.0.1", outside)


def prepare(address: Address) -> None:
    entity = [EntityData(entity_type="user", entity_name=USER)]
    limit = [OpData(key="producer_byte_rate", value=QUOTA_BYTES_PER_SECOND, remove=False)]
    with connect(address) as stream:
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        ask(stream, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
        entries = [RequestEntryData(entity=entity, ops=limit)]
        ask(stream, AlterClientQuotasRequest(entries=entries, validate_only=False), 1)
        for _ in range(2_000):  # the good client's path is warm
            stream.sendall(produce_frame(TOPIC, 0, 100))
            answer(stream)


def measure(
    inside: Address, outside: Address, load: Callable[[Address, Event], None] | None, seconds: float
) -> list[float]:
    context = multiprocessing.get_context("fork")
    over = context.Event()
    hostile = None if load is None else context.Process(target=load, args=(outside, over))
    if hostile is not None:
        hostile.start()
        time.sleep(1)
    try:
        return good(inside, seconds)
    finally:
        over.set()
        if hostile is not None:
            hostile.join(5)
            hostile.kill()
            hostile.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with running("ours") as ours, running("kafka") as kafka:
        for _ in range(options.rounds):
            for name, load in HOSTILE.items():
                for kind, (inside, outside) in (("ours", ours), ("kafka", kafka)):
                    samples = measure(inside, outside, load, options.seconds)
                    figures = (quantile(samples, 0.5), quantile(samples, 0.99))
                    found.setdefault((name, kind), []).append(figures)
    print("p50 and p99 of the good client in milliseconds")
    for (name, kind), each in found.items():
        p50, p99 = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"{name:22}{kind:8}{p50:8.2f}{p99:8.2f}")


if __name__ == "__main__":
    main()

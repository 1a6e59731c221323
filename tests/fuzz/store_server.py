"""Fuzzing of the store server's connections: `python -m tests.fuzz.store_server --cases 100000 [--seed 1]`.

Each case is a new connection that sends a few valid requests, damaged. Whatever it sends, the server answers it, or closes it;
nothing is raised, and a client beside it is served. Anything else ends the run with the command that repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import struct
import sys

from metadata.store.zookeeper import wire
from metadata.store.zookeeper.wire import OpCode
from tests.differential.store.play import OPEN as OPEN_ROWS
from tests.differential.store.play import acl_rows, create_body, multi, set_body, typed, versioned, watched
from tests.fuzz.mutation import mutate
from tests.metadata.store.server.wires import World, ask, greeting, world

CREDENTIALS = wire.int32(0) + wire.text("digest") + wire.opaque(b"a:b")
BODIES: tuple[tuple[OpCode, bytes], ...] = (
    (OpCode.CREATE, create_body("/a", b"1")),
    (OpCode.CREATE2, create_body("/a/b-", b"1", 3)),
    (OpCode.DELETE, versioned("/a")),
    (OpCode.SET_DATA, set_body("/a", b"2", 0)),
    (OpCode.CHECK, versioned("/a", 0)),
    (OpCode.SET_ACL, wire.text("/a") + acl_rows(OPEN_ROWS) + wire.int32(-1)),
    (OpCode.EXISTS, watched("/a", watch=True)),
    (OpCode.GET_DATA, watched("/a", watch=True)),
    (OpCode.GET_CHILDREN, watched("/", watch=True)),
    (OpCode.GET_CHILDREN2, watched("/a")),
    (OpCode.GET_ACL, wire.text("/a")),
    (OpCode.GET_ALL_CHILDREN_NUMBER, wire.text("/")),
    (OpCode.GET_EPHEMERALS, wire.text("/")),
    (OpCode.SYNC, wire.text("/")),
    (OpCode.PING, b""),
    (OpCode.WHO_AM_I, b""),
    (OpCode.ADD_WATCH, typed("/", 1)),
    (OpCode.CHECK_WATCHES, typed("/", 3)),
    (OpCode.REMOVE_WATCHES, typed("/", 3)),
    (OpCode.SET_WATCHES, struct.pack(">q", 0) + wire.texts(["/a"]) * 3),
    (OpCode.SET_WATCHES2, struct.pack(">q", 0) + wire.texts(["/a"]) * 5),
    (OpCode.MULTI, multi((OpCode.CREATE, create_body("/c")), (OpCode.CHECK, versioned("/c", 0)))),
    (OpCode.MULTI_READ, multi((OpCode.GET_DATA, watched("/a")), (OpCode.GET_CHILDREN, watched("/")))),
    (OpCode.RECONFIG, wire.text("") * 3 + struct.pack(">q", -1)),
    (OpCode.CREATE_CONTAINER, create_body("/d")),
    (OpCode.AUTH, CREDENTIALS),
    (OpCode.SASL, wire.opaque(b"")),
    (OpCode.CLOSE_SESSION, b""),
)


class Failures(logging.Handler):
    """What the server says about its own failures."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def stream(source: random.Random) -> bytes:
    """A greeting and some requests, of which one, or what is around it, is damaged."""
    parts = [greeting(), *(ask(number, *source.choice(BODIES)) for number in range(1, source.randint(2, 5)))]
    damaged = source.randrange(len(parts))
    if source.random() < 0.7:  # a frame of the right length with damaged contents
        parts[damaged] = wire.framed(mutate(parts[damaged][4:], source))
    else:
        parts[damaged] = mutate(parts[damaged], source)
    return b"".join(parts)


async def _case(scene: World, source: random.Random) -> bool:
    """Returns whether the connection survived."""
    link = scene.connect(room_bytes=10**9)
    data, position = stream(source), 0
    while position < len(data) and link.is_open:
        size = source.choice((1, 7, 1_000, len(data)))
        link.give(data[position : position + size])
        position += size
    await scene.settled()
    survived = link.is_open
    link.cut()
    return survived


async def _run(seed: int, count: int) -> int:
    failures, survivors = Failures(), 0
    logging.getLogger().addHandler(failures)
    try:
        async with world(connections_max=0) as scene:
            witness = await scene.client(room_bytes=10**9)
            for number in range(count):
                source = random.Random(seed * 1_000_003 + number)
                try:
                    survivors += await _case(scene, source)
                    witness.sent = b""
                    witness.give(ask(wire.PING_XID, OpCode.PING))
                    assert witness.sent and witness.is_open, "the other client is not served"
                    assert not failures.lines, failures.lines[0]
                except BaseException:
                    print(f"case {number} of: python -m tests.fuzz.store_server --seed {seed}", file=sys.stderr)
                    raise
                if number % 200 == 0:
                    scene.tick(60_000)
                    witness = await scene.client(room_bytes=10**9)
    finally:
        logging.getLogger().removeHandler(failures)
    return survivors


def run(seed: int, count: int) -> int:
    """Returns how many connections survived."""
    return asyncio.run(_run(seed, count))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{run(arguments.seed, arguments.cases)} connections of {arguments.cases} survived")


if __name__ == "__main__":
    main()

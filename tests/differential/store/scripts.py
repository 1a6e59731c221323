"""What the store server and ZooKeeper 3.8 are both asked. `SCRIPTS` lists all of it; a script has the node of its name.

Containers are no part of it: the store server does not implement them (docs/cluster.md). Nor is null as data, which it stores
as empty, and the node "/", whose stat tells what else a server has.
"""

from __future__ import annotations

import struct

from metadata.store.zookeeper import wire
from metadata.store.zookeeper.wire import OpCode
from tests.differential.store.play import (
    OPEN,
    Link,
    Player,
    Script,
    acl_rows,
    create_body,
    multi,
    set_body,
    typed,
    versioned,
    watched,
)

SCRIPTS: list[Script] = []
SUPER_USER = b"super:word"
WRONG_PATHS = (
    "",
    "x",
    "/",
    "//a",
    "/a//b",
    "/a/",
    "/a/.",
    "/a/..",
    "/./a",
    "/a/\x00b",
    "/a\x01",
    "/a\x7f",
    "/\ue000",
    "/\ufff5",
)
"""Of them, none may be that of a new node."""


def script(function: Script) -> Script:
    SCRIPTS.append(function)
    return function


def made(link: Link, path: str, data: bytes = b"", flags: int = 0, acl: tuple = OPEN) -> None:
    link.ask(OpCode.CREATE, create_body(path, data, flags, acl))


# --- sessions ---


@script
def greetings(player: Player) -> None:
    for timeout_ms in (-1, 0, 999, 5_000, 2**31 - 1):
        player.link(f"asks for {timeout_ms}").greet(timeout_ms=timeout_ms)
    player.link("an old client").greet(is_old=True)
    player.link("without a password").greet(password=b"")
    player.link("from the future").greet(zxid=2**40)
    player.link("unknown").greet(session_id=77)


@script
def resumption(player: Player) -> None:
    one = player.client("one")
    made(one, f"{player.base}/e", flags=1)
    player.link("wrong password").greet(session_id=one.session_id, password=b"0" * 16)
    two = player.link("two")
    two.greet(session_id=one.session_id, password=one.password, timeout_ms=7_000)
    one.closed()
    two.ask(OpCode.EXISTS, watched(f"{player.base}/e"))
    two.cut()
    three = player.link("three")
    three.greet(session_id=one.session_id, password=one.password)
    three.ask(OpCode.CLOSE_SESSION)
    three.closed()
    late = player.link("too late")
    late.greet(session_id=one.session_id, password=one.password)
    late.closed()
    player.client("other").ask(OpCode.EXISTS, watched(f"{player.base}/e"))


@script
def the_end_of_a_session_takes_its_ephemerals(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    made(one, f"{base}/a", flags=1)
    made(one, f"{base}/b", flags=3)
    two.ask(OpCode.EXISTS, watched(f"{base}/a", watch=True))
    two.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    one.ask(OpCode.GET_EPHEMERALS, wire.text(""))
    one.ask(OpCode.GET_EPHEMERALS, wire.text(f"{base}/b"))
    one.ask(OpCode.CLOSE_SESSION)
    one.closed()
    two.ping()
    two.ask(OpCode.GET_CHILDREN2, watched(base))


# --- nodes ---


@script
def creation(player: Player) -> None:
    one, base = player.client(), player.base
    made(one, f"{base}/a", b"data")
    made(one, f"{base}/a")
    made(one, f"{base}/none/child")
    made(one, f"{base}/e", flags=1)
    made(one, f"{base}/e/child")
    one.ask(OpCode.CREATE2, create_body(f"{base}/two", b"12345"))
    one.ask(OpCode.CREATE2, create_body(f"{base}/two-", b"", 3))
    for flags in (-1, 5, 6, 7, 8, 100):
        made(one, f"{base}/flags-{flags}", flags=flags)
    one.ask(OpCode.CREATE_TTL, create_body(f"{base}/ttl", b"", 5) + struct.pack(">q", 1000))
    one.ask(OpCode.GET_CHILDREN2, watched(base))
    one.ask(OpCode.GET_DATA, watched(f"{base}/a"))


@script
def wrong_paths(player: Player) -> None:
    one = player.client()
    for path in WRONG_PATHS:
        one.say(f"path {path!r}")
        made(one, path)
        one.ask(OpCode.SET_DATA, set_body(path, b"", 77))
        one.ask(OpCode.CHECK, versioned(path, 77))
        one.ask(OpCode.SET_ACL, typed(path, 0) + wire.int32(77))
        one.ask(OpCode.DELETE, versioned(path, 77))
    for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
        one.ask(OpCode.DELETE, versioned(path))


@script
def sequences(player: Player) -> None:
    one, base = player.client(), player.base
    for name in ("a-", "b-", ""):
        made(one, f"{base}/{name}", flags=2)
    one.ask(OpCode.DELETE, versioned(f"{base}/a-0000000000"))
    made(one, f"{base}/a-", flags=2)
    made(one, f"{base}/c", flags=0)
    made(one, f"{base}/a-", flags=3)
    one.ask(OpCode.GET_CHILDREN2, watched(base))


@script
def reading(player: Player) -> None:
    one, base = player.client(), player.base
    made(one, f"{base}/a", b"data")
    made(one, f"{base}/a/b")
    made(one, f"{base}/a/b/c")
    for path in (base, f"{base}/a", f"{base}/a/b/c", f"{base}/none", "no path", f"{base}/a/"):
        for code in (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
            one.ask(code, watched(path))
        for code in (OpCode.GET_ACL, OpCode.GET_ALL_CHILDREN_NUMBER, OpCode.SYNC, OpCode.GET_EPHEMERALS):
            one.ask(code, wire.text(path))
    one.ask(OpCode.WHO_AM_I)
    one.ping()


@script
def setting_and_deleting(player: Player) -> None:
    one, base = player.client(), player.base
    made(one, f"{base}/a", b"data")
    for data, version in ((b"1", 0), (b"2", 0), (b"3", -1), (b"4", 2), (b"5", -2)):
        one.ask(OpCode.SET_DATA, set_body(f"{base}/a", data, version))
    one.ask(OpCode.SET_DATA, set_body(f"{base}/none", b"", 0))
    made(one, f"{base}/a/b")
    for path, version in (("a", -1), ("a/b", 5), ("none", -1), ("a/b/c", -1), ("a/b", 0), ("a", 3)):
        one.ask(OpCode.DELETE, versioned(f"{base}/{path}", version))
    one.ask(OpCode.GET_CHILDREN2, watched(base))


@script
def checks(player: Player) -> None:
    """ZooKeeper does not answer a check by itself that succeeds."""
    one, base = player.client(), player.base
    one.ask(OpCode.CHECK, versioned(base, 1))
    one.ask(OpCode.CHECK, versioned(f"{base}/none", 0))
    one.ask(OpCode.MULTI, multi((OpCode.CHECK, versioned(base, 0)), (OpCode.CHECK, versioned(base, -1))))


@script
def a_large_node(player: Player) -> None:
    one, base = player.client(), player.base
    made(one, f"{base}/a", b"x" * 1_000_000)
    one.ask(OpCode.EXISTS, watched(f"{base}/a"))
    one.ask(OpCode.SET_DATA, set_body(f"{base}/a", b"y" * 1_048_576))


@script
def the_nodes_of_every_server(player: Player) -> None:
    one = player.client()
    for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
        one.ask(OpCode.GET_DATA, watched(path))
        one.ask(OpCode.GET_CHILDREN, watched(path))
        one.ask(OpCode.GET_ACL, wire.text(path))
        one.ask(OpCode.SET_DATA, set_body(path, b"", 77))


# --- transactions ---


@script
def transactions(player: Player) -> None:
    one, base = player.client(), player.base
    a, b = f"{base}/a", f"{base}/b"
    one.ask(OpCode.MULTI, multi())
    good = [
        (OpCode.CREATE, create_body(a, b"1")),
        (OpCode.CREATE2, create_body(b, b"2")),
        (OpCode.CHECK, versioned(a, 0)),
        (OpCode.SET_DATA, set_body(a, b"11", 0)),
        (OpCode.CREATE, create_body(f"{base}/s-", b"", 2)),
        (OpCode.DELETE, versioned(b, 0)),
    ]
    one.ask(OpCode.MULTI, multi(*good))
    one.ask(OpCode.GET_CHILDREN2, watched(base))
    failures = [
        (OpCode.CREATE, create_body(a)),
        (OpCode.CREATE, create_body(f"{base}/c", acl=())),
        (OpCode.CREATE, create_body(f"{base}/c//d")),
        (OpCode.CREATE, create_body(f"{base}/c", flags=9)),
        (OpCode.DELETE, versioned(f"{base}/none")),
        (OpCode.DELETE, versioned("/zookeeper")),
        (OpCode.SET_DATA, set_body(a, b"", 7)),
        (OpCode.CHECK, versioned(a, 7)),
    ]
    for failure in failures:
        for index in range(3):
            around = [(OpCode.SET_DATA, set_body(a, b"x")), (OpCode.CREATE, create_body(f"{base}/new"))]
            one.ask(OpCode.MULTI, multi(*around[:index], failure, *around[index:]))
    one.ask(OpCode.GET_DATA, watched(a))
    one.ask(OpCode.MULTI, multi((OpCode.CREATE, create_body(f"{base}/s-", b"", 2))))
    one.ask(OpCode.MULTI, multi((99, b"")))


@script
def many_reads(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    made(one, f"{base}/a", b"1")
    reads = [
        (OpCode.GET_DATA, watched(f"{base}/a", watch=True)),
        (OpCode.GET_CHILDREN, watched(base, watch=True)),
        (OpCode.GET_DATA, watched(f"{base}/none", watch=True)),
        (OpCode.GET_CHILDREN, watched(f"{base}/none")),
    ]
    two.ask(OpCode.MULTI_READ, multi(*reads))
    two.ask(OpCode.MULTI_READ, multi())
    two.ask(OpCode.MULTI_READ, multi((99, b"")))
    one.ask(OpCode.DELETE, versioned(f"{base}/a"))
    two.ping()


# --- access lists ---


def digest(link: Link, credentials: bytes = b"me:secret") -> None:
    link.ask(OpCode.AUTH, wire.int32(0) + wire.text("digest") + wire.opaque(credentials), xid=wire.AUTH_XID)


MINE = "me:016djjlksVQS5RgX3M7biBGyYwY="


@script
def access_lists(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    made(one, f"{base}/auth", acl=((31, "auth", ""),))
    digest(one)
    made(one, f"{base}/auth", acl=((31, "auth", ""),))
    made(one, f"{base}/both", acl=((31, "digest", MINE), (1, "world", "anyone"), (1, "world", "anyone")))
    made(one, f"{base}/ip", acl=((31, "ip", "127.0.0.0/8"),))
    made(one, f"{base}/other", acl=((31, "ip", "10.1.2.3"),))
    for acl in (
        (), ((31, "world", "someone"),), ((31, "digest", "me"),), ((31, "digest", "a:b:c"),), ((31, "ip", "localhost"),),
        ((31, "ip", "1.2.3.4/33"),), ((31, "unheard", "of"),), ((31, "", ""),), ((0, "world", "anyone"),),
    ):  # fmt: skip
        made(one, f"{base}/list-{len(acl)}", acl=acl)
    for link in (one, two):
        for name in ("auth", "both", "ip", "other"):
            path = f"{base}/{name}"
            link.ask(OpCode.GET_ACL, wire.text(path))
            link.ask(OpCode.EXISTS, watched(path))
            link.ask(OpCode.GET_DATA, watched(path))
            link.ask(OpCode.GET_CHILDREN, watched(path))
            link.ask(OpCode.GET_CHILDREN2, watched(path))
            link.ask(OpCode.GET_ALL_CHILDREN_NUMBER, wire.text(path))
            link.ask(OpCode.SET_DATA, set_body(path, b"1"))
            made(link, f"{path}/{link.name}")
            link.ask(OpCode.MULTI, multi((OpCode.CHECK, versioned(path, -1))))
            link.ask(OpCode.DELETE, versioned(f"{path}/{link.name}"))
    one.ask(OpCode.WHO_AM_I)


@script
def changing_access_lists(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    digest(one)
    made(one, f"{base}/a")
    path = f"{base}/a"
    for acl, version in (
        (((31, "auth", ""),), 0), (((31, "digest", MINE), (1, "world", "anyone")), 0), (((31, "digest", MINE),), 1), ((), 2),
        (((31, "digest", MINE), (1, "world", "anyone")), -1),
    ):  # fmt: skip
        one.ask(OpCode.SET_ACL, wire.text(path) + acl_rows(acl) + wire.int32(version))
    two.ask(OpCode.SET_ACL, wire.text(path) + acl_rows(OPEN) + wire.int32(-1))
    two.ask(OpCode.GET_ACL, wire.text(path))
    one.ask(OpCode.GET_ACL, wire.text(path))
    one.ask(OpCode.SET_ACL, wire.text(f"{base}/none") + acl_rows(OPEN) + wire.int32(-1))


@script
def the_super_user(player: Player) -> None:
    one, boss, base = player.client("one"), player.client("boss"), player.base
    digest(one)
    made(one, f"{base}/a", acl=((31, "auth", ""),))
    digest(boss, SUPER_USER)
    boss.ask(OpCode.GET_ACL, wire.text(f"{base}/a"))
    boss.ask(OpCode.SET_DATA, set_body(f"{base}/a", b"1"))
    boss.ask(OpCode.WHO_AM_I)
    made(boss, f"{base}/boss", acl=((31, "auth", ""),))
    boss.ask(OpCode.GET_ACL, wire.text(f"{base}/boss"))


@script
def identities(player: Player) -> None:
    one = player.client("one")
    digest(one)
    digest(one, b"without a colon")
    one.ask(OpCode.AUTH, wire.int32(0) + wire.text("ip") + wire.opaque(b""), xid=wire.AUTH_XID)
    one.ask(OpCode.WHO_AM_I)
    one.ask(OpCode.AUTH, wire.int32(0) + wire.text("world") + wire.opaque(b"anyone"), xid=wire.AUTH_XID)
    one.closed()


# --- watches ---


@script
def one_shot_watches(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    a = f"{base}/a"
    two.ask(OpCode.EXISTS, watched(a, watch=True))
    two.ask(OpCode.GET_DATA, watched(a, watch=True))
    two.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    made(one, a)
    two.ping()
    two.ask(OpCode.GET_DATA, watched(a, watch=True))
    two.ask(OpCode.EXISTS, watched(a, watch=True))
    one.ask(OpCode.SET_DATA, set_body(a, b"1"))
    one.ask(OpCode.SET_DATA, set_body(a, b"2"))
    two.ping()
    two.ask(OpCode.GET_CHILDREN2, watched(a, watch=True))
    two.ask(OpCode.GET_DATA, watched(a, watch=True))
    two.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    one.ask(OpCode.SET_ACL, wire.text(a) + acl_rows(OPEN) + wire.int32(-1))
    one.ask(OpCode.DELETE, versioned(a))
    two.ping()
    two.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    two.ask(OpCode.EXISTS, watched(f"{base}/b", watch=True))
    operations = [
        (OpCode.CREATE, create_body(f"{base}/b")),
        (OpCode.SET_DATA, set_body(f"{base}/b", b"")),
        (OpCode.DELETE, versioned(f"{base}/b")),
    ]
    one.ask(OpCode.MULTI, multi(*operations))
    two.ping()


@script
def watches_on_what_may_not_be_read(player: Player) -> None:
    """The event goes to nobody who may not read the node, and its watch is used up."""
    one, two, base = player.client("one"), player.client("two"), player.base
    digest(one)
    mine = ((31, "auth", ""),)
    secret, parent = f"{base}/secret", f"{base}/parent"
    two.ask(OpCode.EXISTS, watched(secret, watch=True))
    two.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    made(one, secret, acl=mine)
    two.ping()
    two.ask(OpCode.EXISTS, watched(secret, watch=True))
    two.ask(OpCode.ADD_WATCH, typed(base, 1))
    one.ask(OpCode.SET_DATA, set_body(secret, b"1"))
    made(one, f"{secret}/open")
    one.ask(OpCode.DELETE, versioned(f"{secret}/open"))
    one.ask(OpCode.DELETE, versioned(secret))
    two.ping()
    made(one, parent)
    two.ask(OpCode.GET_CHILDREN, watched(parent, watch=True))
    two.ask(OpCode.GET_DATA, watched(parent, watch=True))
    one.ask(OpCode.SET_ACL, wire.text(parent) + acl_rows(mine) + wire.int32(-1))
    made(one, f"{parent}/child")
    one.ask(OpCode.SET_DATA, set_body(parent, b"1"))
    one.ask(OpCode.SET_ACL, wire.text(parent) + acl_rows(OPEN) + wire.int32(-1))
    made(one, f"{parent}/child-2")
    one.ask(OpCode.SET_DATA, set_body(parent, b"1"))
    two.ping()
    made(one, f"{base}/e", flags=1, acl=mine)
    made(one, f"{base}/e-open", flags=1)
    two.ping()
    one.ask(OpCode.CLOSE_SESSION)
    one.closed()
    two.ping()


@script
def own_changes_are_heard_before_their_answer(player: Player) -> None:
    one, base = player.client(), player.base
    one.ask(OpCode.GET_CHILDREN, watched(base, watch=True))
    made(one, f"{base}/a")


@script
def persistent_watches(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    a = f"{base}/a"
    for name, mode in (("persistent", 0), ("recursive", 1)):
        two.say(name)
        two.ask(OpCode.ADD_WATCH, typed(a, mode))
        for _ in range(2):
            made(one, a)
            one.ask(OpCode.SET_DATA, set_body(a, b"1"))
            made(one, f"{a}/child")
            one.ask(OpCode.SET_DATA, set_body(f"{a}/child", b"1"))
            one.ask(OpCode.DELETE, versioned(f"{a}/child"))
            one.ask(OpCode.DELETE, versioned(a))
        two.ping()
        for kind in (1, 2, 3):
            two.ask(OpCode.CHECK_WATCHES, typed(a, kind))
        two.ask(OpCode.REMOVE_WATCHES, typed(a, 3))
        two.ask(OpCode.REMOVE_WATCHES, typed(a, 3))
        made(one, a)
        one.ask(OpCode.DELETE, versioned(a))
        two.ping()
    two.ask(OpCode.ADD_WATCH, typed(a, 2))


@script
def removal_of_watches(player: Player) -> None:
    one, two, base = player.client("one"), player.client("two"), player.base
    made(one, f"{base}/a")
    path = f"{base}/a"
    for kind in (1, 2, 3, 0, 9):
        two.ask(OpCode.REMOVE_WATCHES, typed(path, kind))
        two.ask(OpCode.CHECK_WATCHES, typed(path, kind))
        two.ask(OpCode.GET_DATA, watched(path, watch=True))
        two.ask(OpCode.CHECK_WATCHES, typed(path, kind))
        two.ask(OpCode.GET_CHILDREN, watched(path, watch=True))
        two.ask(OpCode.CHECK_WATCHES, typed(path, kind))
        two.ask(OpCode.REMOVE_WATCHES, typed(path, kind))
        one.ask(OpCode.SET_DATA, set_body(path, b"1"))
        made(one, f"{path}/child")
        one.ask(OpCode.DELETE, versioned(f"{path}/child"))
        two.ping()


@script
def watches_that_are_set_again(player: Player) -> None:
    one, base = player.client("one"), player.base
    for name in ("same", "set", "gone", "parent", "parent-of-none"):
        made(one, f"{base}/{name}")
    for code in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
        two = player.client(f"by {code.name}")
        two.ask(OpCode.GET_DATA, watched(f"{base}/same"))
        made(one, f"{base}/mark", flags=2)
        one.ask(OpCode.GET_CHILDREN2, watched(base))
        since = max(player.log.zxids)
        one.ask(OpCode.SET_DATA, set_body(f"{base}/set", b"1"))
        made(one, f"{base}/gone")
        one.ask(OpCode.DELETE, versioned(f"{base}/gone"))
        made(one, f"{base}/parent/child-", flags=2)
        paths = [f"{base}/{name}" for name in ("same", "set", "gone", "never")]
        parents = [f"{base}/{name}" for name in ("parent", "parent-of-none", "gone")]
        body = struct.pack(">q", since) + wire.texts(paths) + wire.texts(paths) + wire.texts(parents)
        if code is OpCode.SET_WATCHES2:
            body += wire.texts([f"{base}/persistent"]) + wire.texts([f"{base}/recursive"])
        two.ask(code, body, xid=wire.SET_WATCHES_XID)
        one.ask(OpCode.SET_DATA, set_body(f"{base}/same", b"1"))
        made(one, f"{base}/never")
        one.ask(OpCode.DELETE, versioned(f"{base}/never"))
        made(one, f"{base}/parent-of-none/child-", flags=2)
        for name in ("persistent", "recursive"):
            made(one, f"{base}/{name}")
            made(one, f"{base}/{name}/child")
            one.ask(OpCode.DELETE, versioned(f"{base}/{name}/child"))
            one.ask(OpCode.DELETE, versioned(f"{base}/{name}"))
        two.ping()


# --- what is no request ---


@script
def four_letter_words(player: Player) -> None:
    """Those that both answer, and one that neither does. Of a server's state only the names are compared."""
    for word in (b"ruok", b"dump", b"srvr"):
        link = player.link(word.decode())
        link.send(word)
        answer = link.rest().decode()
        link.say(str([line.partition(":")[0] for line in answer.split("\n")]))
    link = player.client("in a session")
    link.send(b"ruok")
    link.closed()


@script
def unknown_operations(player: Player) -> None:
    for number in (0, 10, 23, 99, 108, 1000, -2, -100):
        link = player.client(f"operation {number}")
        link.ask(number)
        link.closed()


@script
def reconfiguration(player: Player) -> None:
    one = player.client()
    one.ask(OpCode.RECONFIG, wire.text("") * 3 + struct.pack(">q", -1))


@script
def malformed_frames(player: Player) -> None:
    for name, data in (
        ("negative length", struct.pack(">i", -1)),
        ("too long", struct.pack(">i", 0xFFFFF + 1)),
        ("empty", wire.framed(b"")),
        ("short header", wire.framed(b"\0\0\0\1\0\0")),
    ):
        for greets in (False, True):
            link = player.link(f"{name} {'after' if greets else 'in place of'} a greeting")
            if greets:
                link.greet()
            link.send(data)
            link.closed()


@script
def truncated_requests(player: Player) -> None:
    one, base = player.client(), player.base
    bodies = {
        OpCode.CREATE: create_body(f"{base}/x"),
        OpCode.CREATE2: create_body(f"{base}/x"),
        OpCode.DELETE: versioned(f"{base}/x"),
        OpCode.SET_DATA: set_body(base, b"1"),
        OpCode.CHECK: versioned(base, 7),
        OpCode.SET_ACL: wire.text(base) + acl_rows(OPEN) + wire.int32(7),
        OpCode.EXISTS: watched(base),
        OpCode.GET_DATA: watched(base),
        OpCode.GET_CHILDREN: watched(base),
        OpCode.GET_CHILDREN2: watched(base),
        OpCode.GET_ACL: wire.text(base),
        OpCode.GET_ALL_CHILDREN_NUMBER: wire.text(base),
        OpCode.GET_EPHEMERALS: wire.text(base),
        OpCode.SYNC: wire.text(base),
        OpCode.ADD_WATCH: typed(base, 0),
        OpCode.CHECK_WATCHES: typed(base, 3),
        OpCode.REMOVE_WATCHES: typed(base, 3),
        OpCode.SET_WATCHES: struct.pack(">q", 0) + wire.texts([]) * 3,
        OpCode.SET_WATCHES2: struct.pack(">q", 0) + wire.texts([]) * 5,
        OpCode.MULTI: multi((OpCode.CREATE, create_body(f"{base}/x"))),
        OpCode.MULTI_READ: multi((OpCode.GET_DATA, watched(base))),
    }
    for code, body in bodies.items():
        for length in (0, 3, len(body) - 1):
            one.ask(code, body[:length])
        one.ask(code, struct.pack(">i", 0x7FFFFFFF) + body[4:])
    one.ask(OpCode.GET_DATA, watched(base) + b"more than was asked for")
    one.ask(OpCode.GET_CHILDREN2, watched(base))

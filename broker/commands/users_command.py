"""`barnabas users`: SCRAM credentials of users are made, listed and deleted, through a broker of any Kafka or in the store.

Rules: the password comes from a file or the standard input, and goes no further than its salted hash; nothing prints it. What
is written is what a broker, or Apache Kafka's kafka-configs.sh, writes: running brokers follow it. Exit codes: 0, 1 when the
cluster cannot be reached or refuses, 2 for invalid arguments and settings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import uvloop

from broker.commands.output import print_problem, print_result
from broker.commands.users_clusters import UsersFailed, open_users
from config.errors import ConfigError
from metadata.store.embedded import StoreFileError
from metadata.store.port import StoreError
from runtime.error_texts import reason_of
from runtime.randomness import system_randomness
from security.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES, ScramMechanism

if TYPE_CHECKING:
    from broker.commands.users_clusters import Users

_EXIT_FAILED, _EXIT_USAGE = 1, 2
SETTING = ("create", "alter")
STANDARD_INPUT = "-"
# As many bytes are read of a password file: whoever names another file by mistake has to be told.
LONGEST_PASSWORD_BYTES = 4096


class PasswordReader(Protocol):
    def read(self, size: int, /) -> bytes: ...


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code. Raises OutputError."""
    try:
        sets = options.users_command in SETTING
        if sets:
            _check_name(options.name)
            _check_iterations(options.iterations)
        password = _password(options.password_file) if sets else ""
        return uvloop.run(_run(options, password))
    except (ConfigError, ValueError) as error:
        print_problem(f"barnabas: {error.line if isinstance(error, ConfigError) else error}")
        return _EXIT_USAGE
    except UsersFailed as error:
        print_problem(f"barnabas: {error}")
    except StoreFileError as error:
        print_problem(f"barnabas: {error}; does the broker run? then use --bootstrap-server")
    except StoreError as error:
        print_problem(f"barnabas: the store refused {error.path}: {type(error).__name__}")
    except OSError as error:
        print_problem(f"barnabas: {reason_of(error)}")
    return _EXIT_FAILED


async def _run(options: argparse.Namespace, password: str) -> int:
    async with open_users(options) as users:
        if options.users_command in SETTING:
            await _create(users, options, password)
        elif options.users_command == "delete":
            await _delete(users, options)
        else:
            found = await users.list()
            if options.users_command == "describe":
                found = {options.name: _of(found, options.name, None)}
            _print_list(found, as_json=options.json, is_one=options.users_command == "describe")
    return 0


async def _create(users: Users, options: argparse.Namespace, password: str) -> None:
    mechanism: ScramMechanism = MECHANISMS[options.mechanism]
    salt, iterations = system_randomness().randbytes(SALT_BYTES), options.iterations
    salted = await asyncio.to_thread(mechanism.salted_password, password, salt, iterations)
    await users.set(options.name, mechanism, salted, salt, iterations)
    done = {"user": options.name, "result": "set", "mechanisms": [mechanism.name], "iterations": iterations}
    _print_done(options, done, f"{mechanism.name} password of {options.name} is set")


async def _delete(users: Users, options: argparse.Namespace) -> None:
    chosen = list(_of(await users.list(), options.name, options.mechanism))
    if not options.execute:
        if options.json:
            print_result(json.dumps({"user": options.name, "mechanisms": chosen}, indent=2))
        print_problem(f"nothing was deleted: --execute deletes the {' and '.join(chosen)} password of {options.name}")
        return
    await users.delete(options.name, [MECHANISMS[each] for each in chosen])
    done = {"user": options.name, "result": "deleted", "mechanisms": chosen}
    _print_done(options, done, f"{' and '.join(chosen)} password of {options.name} is deleted")


def _of(users: Mapping[str, Mapping[str, int]], name: str, mechanism: str | None) -> Mapping[str, int]:
    """Return what a user has, or has of one mechanism. Raises UsersFailed when that is nothing."""
    found = users.get(name, {})
    chosen = {each: found[each] for each in MECHANISMS if each in found and mechanism in (None, each)}
    if not chosen:
        raise UsersFailed(
            f"{name} has no password{'' if mechanism is None else f' of {mechanism}'} (`barnabas users list` shows the users)"
        )
    return chosen


def _print_list(users: Mapping[str, Mapping[str, int]], *, as_json: bool, is_one: bool) -> None:
    if as_json:
        rows = [
            {"user": name, "credentials": [{"mechanism": each, "iterations": number} for each, number in found.items()]}
            for name, found in sorted(users.items())
        ]
        print_result(json.dumps(rows[0] if is_one else rows, indent=2))
        return
    width = max(map(len, users), default=0)
    for name in sorted(users):
        shown = ", ".join(f"{mechanism} ({iterations} iterations)" for mechanism, iterations in users[name].items())
        print_result(f"{name:{width}}  {shown}")


def _print_done(options: argparse.Namespace, done: Mapping[str, object], text: str) -> None:
    print_result(json.dumps(done, indent=2) if options.json else text)


def _check_name(name: str) -> None:
    """Raises ValueError."""
    if not name or not name.isascii() or not name.isprintable():
        raise ValueError("the name of a SCRAM user has ASCII characters only, and one of them at least")


def _check_iterations(iterations: int) -> None:
    """Raises ValueError."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"--iterations {iterations}: from {MIN_ITERATIONS} to {MAX_ITERATIONS} are possible")


def _password(path: str) -> str:
    """Read a password; the end of its line does not belong to it. Raises ValueError, OSError."""
    if path == STANDARD_INPUT:
        return _read_password(sys.stdin.buffer, "the standard input")
    with open(path, "rb") as file:
        return _read_password(file, path)


def _read_password(reader: PasswordReader, name: str) -> str:
    content = reader.read(LONGEST_PASSWORD_BYTES + 1)
    if len(content) > LONGEST_PASSWORD_BYTES:
        raise ValueError(f"{name} has more than {LONGEST_PASSWORD_BYTES} bytes: it holds no password")
    try:
        password = content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not in UTF-8") from None
    password = password.removesuffix("\n").removesuffix("\r")
    if not password or "\n" in password or "\r" in password:
        raise ValueError(f"{name} must hold one line, the password")
    return password

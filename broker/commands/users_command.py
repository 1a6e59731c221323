"""`barnabas users`: SCRAM credentials of users are made, listed and deleted, through a broker or in the store.

Rules: the password comes from a file or the standard input, and goes no further than its salted hash; nothing prints it. What
is written is what a broker, or Apache Kafka's kafka-configs.sh, writes: running brokers follow it. Exit codes: 0, 1 when the
cluster cannot be reached or refuses, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import asyncio
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
from security.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES, ScramMechanism

if TYPE_CHECKING:
    from broker.commands.users_clusters import Users

_EXIT_FAILED, _EXIT_USAGE = 1, 2
STANDARD_INPUT = "-"
# As many bytes are read of a password file: whoever names another file by mistake has to be told.
LONGEST_PASSWORD_BYTES = 4096


class PasswordReader(Protocol):
    def read(self, size: int, /) -> bytes: ...


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code. Raises OutputError."""
    try:
        if options.users_command == "create":
            _check_name(options.name)
            _check_iterations(options.iterations)
        password = _password(options.password_file) if options.users_command == "create" else ""
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
        if options.users_command == "create":
            await _create(users, options, password)
        elif options.users_command == "delete":
            await _delete(users, options.name, options.mechanism)
        else:
            _print_list(await users.list())
    return 0


async def _create(users: Users, options: argparse.Namespace, password: str) -> None:
    mechanism: ScramMechanism = MECHANISMS[options.mechanism]
    salt, iterations = system_randomness().randbytes(SALT_BYTES), options.iterations
    salted = await asyncio.to_thread(mechanism.salted_password, password, salt, iterations)
    await users.set(options.name, mechanism, salted, salt, iterations)
    print_result(f"{mechanism.name} password of {options.name} is set")


async def _delete(users: Users, name: str, mechanism: str | None) -> None:
    found = (await users.list()).get(name, {})
    chosen = [each for each in MECHANISMS if each in found and mechanism in (None, each)]
    if not chosen:
        raise UsersFailed(f"{name} has no password{'' if mechanism is None else f' of {mechanism}'}")
    await users.delete(name, [MECHANISMS[each] for each in chosen])
    print_result(f"{' and '.join(chosen)} password of {name} is deleted")


def _print_list(users: Mapping[str, Mapping[str, int]]) -> None:
    width = max(map(len, users), default=0)
    for name in sorted(users):
        shown = ", ".join(f"{mechanism} ({iterations} iterations)" for mechanism, iterations in users[name].items())
        print_result(f"{name:{width}}  {shown}")


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

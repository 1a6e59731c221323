"""`barnabas users`: SCRAM credentials of users are made, listed and deleted, through a broker of any Kafka or in the store.

Rules: the password comes from a file or the standard input, and goes no further than its salted hash; nothing prints it. What
is written is what a broker, or Apache Kafka's kafka-configs.sh, writes: running brokers follow it. Exit codes: 0, 1 when the
cluster cannot be reached or refuses, 2 for invalid arguments and settings.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import click
import uvloop

from broker.commands.users_clusters import Users, UsersFailed, UsersPlace, open_users
from client.settings.command_options import cluster_options
from config.errors import ConfigError
from metadata.store.port import StoreError
from metadata.store.store_file import StoreFileError
from runtime.command_line.execute_option import execute_option
from runtime.command_line.failure import Failure, InvalidUse
from runtime.command_line.group import Commands
from runtime.command_line.output import Output, print_result
from runtime.error_texts import reason_of
from runtime.randomness import system_randomness
from security.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES, ScramMechanism

STANDARD_INPUT = "-"
# As many bytes are read of a password file: whoever names another file by mistake has to be told.
LONGEST_PASSWORD_BYTES = 4096
_EPILOG = """A cluster is found by one of its brokers, any Kafka's, or by its store, in which users may be before the first
start: a ZooKeeper, or the data directory of a standalone broker that does not run. --command-config and --profile
have settings with Apache Kafka's names: of a client (security.protocol, sasl.mechanism, sasl.jaas.config,
ssl.truststore.location in PEM), or with --zookeeper of a broker (zookeeper.*)."""
_PLACES = {"bootstrap_server": "--bootstrap-server", "zookeeper": "--zookeeper", "data_dir": "--data-dir"}


Action = Callable[[Users], Awaitable[None]]
"""What a command does once it has found the users of a cluster."""


class PasswordReader(Protocol):
    def read(self, size: int, /) -> bytes: ...


@click.group("users", cls=Commands, aliases={"alter": "create"}, epilog=_EPILOG)
def command() -> None:
    """Users who log in by SASL SCRAM."""


def _users_command(name: str) -> Callable[[Callable[..., Action]], click.Command]:
    """Make a command of a function that checks its options and returns an action. It is called with `output`."""

    def decorate(function: Callable[..., Action]) -> click.Command:
        @functools.wraps(function)
        def run(
            *, command_config: str | None, client_config: str | None, profile: str | None, as_json: bool, **others: Any
        ) -> None:
            named = {parameter: others.pop(parameter) for parameter in _PLACES}
            given = [_PLACES[parameter] for parameter, value in named.items() if value is not None]
            if len(given) > 1:
                raise click.UsageError(f"{' and '.join(given)} do not go together")
            try:
                action = function(output=Output(as_json=as_json), **others)
                uvloop.run(_do(action, UsersPlace(config=command_config or client_config, profile=profile, **named)))
            except (ConfigError, ValueError) as error:
                raise InvalidUse(error.line if isinstance(error, ConfigError) else str(error)) from None
            except UsersFailed as error:
                raise Failure(str(error)) from None
            except StoreFileError as error:
                raise Failure(f"{error}; does the broker run? then use --bootstrap-server") from None
            except StoreError as error:
                raise Failure(f"the store refused {error.path}: {type(error).__name__}") from None
            except OSError as error:
                raise Failure(reason_of(error)) from None

        with_options: Callable[..., Any] = run
        for option in (
            click.option("--data-dir", metavar="DIR", help="the first of log.dirs of a standalone broker"),
            click.option("--zookeeper", metavar="HOST:PORT[/PATH]", help="the ZooKeeper of a cluster"),
            cluster_options("--config"),
        ):
            with_options = option(with_options)
        return command.command(name, epilog=_EPILOG)(with_options)

    return decorate


async def _do(action: Action, place: UsersPlace) -> None:
    async with open_users(place) as users:
        await action(users)


@_users_command("create")
@click.argument("name")
@click.option("--mechanism", required=True, type=click.Choice(list(MECHANISMS)), help="of the login")
@click.option("--password-file", required=True, metavar="FILE", help="holds the password; - is the standard input")
@click.option("--iterations", type=int, default=4096, help="of the hash, 4096 to 16384 [4096]")
def create(name: str, mechanism: str, password_file: str, iterations: int, output: Output) -> Action:
    """Set the password of the user NAME."""
    _check_name(name)
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"--iterations {iterations}: from {MIN_ITERATIONS} to {MAX_ITERATIONS} are possible")
    password = _password(password_file)

    async def set_it(users: Users) -> None:
        kind: ScramMechanism = MECHANISMS[mechanism]
        salt = system_randomness().randbytes(SALT_BYTES)
        salted = await asyncio.to_thread(kind.salted_password, password, salt, iterations)
        await users.set(name, kind, salted, salt, iterations)
        done = {"user": name, "result": "set", "mechanisms": [mechanism], "iterations": iterations}
        output.result(done, f"{mechanism} password of {name} is set")

    return set_it


@_users_command("list")
def list_all(output: Output) -> Action:
    """List users, without passwords."""

    async def show(users: Users) -> None:
        found = await users.list()
        if output.as_json:
            output.document([_row(name, found[name]) for name in sorted(found)])
        else:
            _print(found)

    return show


@_users_command("describe")
@click.argument("name")
def describe(name: str, output: Output) -> Action:
    """Show the user NAME, without passwords."""

    async def show(users: Users) -> None:
        found = _of(await users.list(), name, None)
        if output.as_json:
            output.document(_row(name, found))
        else:
            _print({name: found})

    return show


@_users_command("delete")
@click.argument("name")
@click.option("--mechanism", type=click.Choice(list(MECHANISMS)), help="only the password of this mechanism")
@execute_option("remove them")
def delete(name: str, mechanism: str | None, execute: bool, output: Output) -> Action:
    """Remove the passwords of the user NAME, a dry run without --execute."""

    async def remove(users: Users) -> None:
        chosen = list(_of(await users.list(), name, mechanism))
        if not execute:
            if output.as_json:
                output.document({"user": name, "mechanisms": chosen})
            Output.note(f"nothing was deleted: --execute deletes the {' and '.join(chosen)} password of {name}")
            return
        await users.delete(name, [MECHANISMS[each] for each in chosen])
        done = {"user": name, "result": "deleted", "mechanisms": chosen}
        output.result(done, f"{' and '.join(chosen)} password of {name} is deleted")

    return remove


def _of(users: Mapping[str, Mapping[str, int]], name: str, mechanism: str | None) -> Mapping[str, int]:
    """Return what a user has, or has of one mechanism. Raises UsersFailed when that is nothing."""
    found = users.get(name, {})
    chosen = {each: found[each] for each in MECHANISMS if each in found and mechanism in (None, each)}
    if not chosen:
        raise UsersFailed(
            f"{name} has no password{'' if mechanism is None else f' of {mechanism}'} (`barnabas users list` shows the users)"
        )
    return chosen


def _row(name: str, found: Mapping[str, int]) -> dict[str, object]:
    rows = [{"mechanism": mechanism, "iterations": iterations} for mechanism, iterations in found.items()]
    return {"user": name, "credentials": rows}


def _print(users: Mapping[str, Mapping[str, int]]) -> None:
    width = max(map(len, users), default=0)
    for name in sorted(users):
        shown = ", ".join(f"{mechanism} ({iterations} iterations)" for mechanism, iterations in users[name].items())
        print_result(f"{name:{width}}  {shown}")


def _check_name(name: str) -> None:
    """Raises ValueError."""
    if not name or not name.isascii() or not name.isprintable():
        raise ValueError("the name of a SCRAM user has ASCII characters only, and one of them at least")


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

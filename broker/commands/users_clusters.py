"""Where `barnabas users` finds the users of a cluster: at a broker, in a ZooKeeper, or in the store of a standalone broker.

Rules: a store is written as brokers write it (`metadata.store.configs`); quotas in the same nodes stay. The store of a
standalone broker is a file that one process has: while the broker runs, opening it fails. A broker is asked for the controller,
which alone changes users.
Source: Kafka ConfigCommand, ZkAdminManager.alterUserScramCredentials.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from broker.cluster.zookeeper_tls import zookeeper_tls
from broker.settings.scram_users import user_of_path, user_path
from client.event_loop.connection import OutgoingConnection
from client.event_loop.connector import Connector
from client.event_loop.settings import connector_of
from client.reach import Access, is_final, unreached_text
from client.settings.command_line import DEFAULTS, client_properties
from client.settings.parsing import parse_client, warnings_about
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.sources import read_properties
from metadata.store import configs, znodes
from metadata.store.embedded import EmbeddedStore
from metadata.store.port import Store, ensure_path
from metadata.store.store_file import FILE_NAME
from metadata.store.zookeeper.client import ClientDependencies
from metadata.store.zookeeper.options import ZooKeeperOptions
from metadata.store.zookeeper.session import Credentials
from metadata.store.zookeeper.store import open_zookeeper_store
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.primitives import DecodeError
from protocol.schema import Request, Response
from runtime.clock import SystemClock
from runtime.command_line.output import print_problem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.error_texts import reason_of
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.network.transport import Network
from runtime.randomness import system_randomness
from runtime.tasks import TaskScope
from security.sasl.scram import MECHANISMS, MECHANISMS_BY_CODE, ScramCredential, ScramMechanism
from storage.directories.log_directory import STORE_FOLDER

R = TypeVar("R", bound=Response)

CONNECT_TIMEOUT_S = 15
TOLD_AFTER_S = 0.7
CLIENT_ID = "barnabas-users"
CONTROLLER_ATTEMPTS = 5
CONTROLLER_AGAIN_AFTER_S = 0.5
METADATA_VERSION = 4  # known since 0.11; names the controller


@dataclass(frozen=True, slots=True)
class UsersPlace:
    """Where the users are: at brokers, or in one of the two stores. `config` has settings for the connection."""

    bootstrap_server: str | None
    zookeeper: str | None
    data_dir: str | None
    config: str | None
    profile: str | None


class UsersFailed(Exception):
    """The cluster was reached and refused, or there is nothing to do."""


class Users(Protocol):
    """The users of a cluster that have SCRAM credentials. All methods raise UsersFailed, OSError, StoreError."""

    async def list(self) -> Mapping[str, Mapping[str, int]]:
        """Return the iterations by mechanism of each user."""

    async def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None: ...

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None: ...


class StoredUsers:
    """In the store itself."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self) -> Mapping[str, Mapping[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for node, settings in (await configs.entity_configs(self._store, "users")).items():
            name = user_of_path(f"users/{node}")
            for mechanism in MECHANISMS.keys() & settings.keys():
                try:
                    iterations = ScramCredential.parse(settings[mechanism]).iterations
                except ValueError as error:
                    raise UsersFailed(f"the node of {name} cannot be read: {error}") from error
                found.setdefault(str(name), {})[mechanism] = iterations
        return found

    async def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        text = mechanism.credential(salted_password, salt, iterations).text
        await self._edit(name, {mechanism.name: text}, ())

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        await self._edit(name, {}, [mechanism.name for mechanism in mechanisms])

    async def _edit(self, name: str, new: Mapping[str, str], removed: Sequence[str]) -> None:
        await ensure_path(self._store, znodes.CONFIG_CHANGES)  # no broker may have started yet
        await configs.edit_entity_config(
            self._store,
            user_path(name),
            lambda stored: {key: text for key, text in {**stored, **new}.items() if key not in removed},
        )


class ServedUsers:
    """At a broker of a running cluster."""

    def __init__(
        self, connector: Connector, servers: Sequence[tuple[str, int]], access: Access, tasks: TaskScope
    ) -> None:
        self._connector = connector
        self._addresses = servers
        self._access = access
        self._tasks = tasks

    async def list(self) -> Mapping[str, Mapping[str, int]]:
        request = DescribeUserScramCredentialsRequest(users=None)
        answer = await self._ask_any(request, 0, DescribeUserScramCredentialsResponse)
        _check(answer.error_code, answer.error_message)
        return {
            result.user: {MECHANISMS_BY_CODE[info.mechanism].name: info.iterations for info in result.credential_infos}
            for result in answer.results
        }

    async def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        row = ScramCredentialUpsertion(
            name=name, mechanism=mechanism.code, iterations=iterations, salt=salt, salted_password=salted_password
        )
        await self._alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]))

    async def delete(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        rows = [ScramCredentialDeletion(name=name, mechanism=mechanism.code) for mechanism in mechanisms]
        await self._alter(AlterUserScramCredentialsRequest(deletions=rows, upsertions=[]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        """Ask the controller; one that has just lost that role says so."""
        for attempt in range(CONTROLLER_ATTEMPTS):
            answer = await self._ask(await self._controller(), request, 0, AlterUserScramCredentialsResponse)
            is_over = all(result.error_code != ErrorCode.NOT_CONTROLLER for result in answer.results)
            if is_over or attempt + 1 == CONTROLLER_ATTEMPTS:
                break
            await asyncio.sleep(CONTROLLER_AGAIN_AFTER_S)
        for result in answer.results:
            _check(result.error_code, result.error_message)

    async def _controller(self) -> tuple[str, int]:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = await self._ask_any(request, METADATA_VERSION, MetadataResponse)
        for broker in answer.brokers:
            if broker.node_id == answer.controller_id:
                return broker.host, broker.port
        raise UsersFailed("the cluster has no controller now (`barnabas cluster health` tells more)")

    async def _ask_any(self, request: Request, version: int, response: type[R]) -> R:
        """Ask the first of the brokers that answers. Raises UsersFailed: what is wrong with the last."""
        for address in self._addresses[:-1]:
            with contextlib.suppress(UsersFailed):
                return await self._ask(address, request, version, response)
        return await self._ask(self._addresses[-1], request, version, response)

    async def _ask(self, address: tuple[str, int], request: Request, version: int, response: type[R]) -> R:
        """Raises UsersFailed with the address."""
        host, port = address
        client: OutgoingConnection | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S) as limit:
                telling = self._tasks.spawn(self._tell_why(address, limit), name="why nobody answers")
                client = await self._connector.open(host, port, CLIENT_ID)
                return await client.send(request, version, response)
        except (OSError, DecodeError) as error:
            why = await self._why(address) or f"{_reason(error)}; is a broker there, and security.protocol right?"
            raise UsersFailed(f"no broker answers at {host}:{port}: {why}") from error
        finally:
            telling.cancel()
            if client is not None:
                client.abort()

    async def _tell_why(self, address: tuple[str, int], limit: asyncio.Timeout) -> None:
        """Tell why nobody has answered for a moment, and end the wait where that will not change."""
        await asyncio.sleep(TOLD_AFTER_S)
        why = await self._why(address)
        if why is not None:
            print_problem(f"no answer yet: {why}")
            if is_final(why):
                limit.reschedule(asyncio.get_running_loop().time())

    async def _why(self, address: tuple[str, int]) -> str | None:
        return await asyncio.to_thread(unreached_text, [f"{address[0]}:{address[1]}"], self._access)


def _reason(error: OSError | DecodeError) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else reason_of(error)


class NoSessionFile:
    """A session of which nothing is stored: it ends with the command."""

    async def load(self) -> Credentials | None:
        return None

    async def save(self, _credentials: Credentials) -> None:
        return None

    async def remove(self) -> None:
        return None


@asynccontextmanager
async def open_users(place: UsersPlace) -> AsyncIterator[Users]:
    """Open the users of a place. Raises UsersFailed, ConfigError, SettingsError, StoreFileError, OSError."""
    network, tasks = OsNetwork(SocketOptions()), TaskScope("users")
    try:
        if place.zookeeper is not None:
            given = _given(place.config)
            async with _zookeeper({**given, "zookeeper.connect": place.zookeeper}, network, tasks) as store:
                yield StoredUsers(store)
            return
        if place.data_dir is None:
            properties = client_properties(place.config, place.profile)
            settings = parse_client(properties, DEFAULTS, servers=place.bootstrap_server)
            for warning in warnings_about(properties):
                print_problem(f"barnabas: warning: {warning}")
            connector = connector_of(settings, network, system_randomness())
            yield ServedUsers(connector, settings.servers, Access.of(settings), tasks)
            return
        async with _embedded(place.data_dir, tasks) as store:
            yield StoredUsers(store)
    finally:
        await tasks.close()
        network.close()


@asynccontextmanager
async def _zookeeper(given: Mapping[str, str], network: Network, tasks: TaskScope) -> AsyncIterator[Store]:
    settings = BrokerSettings.from_sources(given, {}, {})
    zookeeper = ZooKeeperOptions.of(settings, zookeeper_tls(settings, OsFileSystem()))
    dependencies = ClientDependencies(network, SystemClock(), system_randomness(), tasks)
    store = await open_zookeeper_store(zookeeper, dependencies, NoSessionFile())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _embedded(directory: str, tasks: TaskScope) -> AsyncIterator[Store]:
    files = OsFileSystem()
    files.make_directory(directory)
    if files.is_directory(f"{directory}/{STORE_FOLDER}"):  # of several brokers that one command starts
        directory = f"{directory}/{STORE_FOLDER}"
    disk = OsDisk()
    try:
        path = os.path.join(directory, FILE_NAME)
        store = await EmbeddedStore.open(path, disk.queue(f"{directory}#store"), SystemClock(), tasks)
        try:
            yield store
        finally:
            await store.close()
    finally:
        await disk.close()


def _given(path: str | None) -> dict[str, str]:
    """Raises ConfigError."""
    if path is None:
        return {}
    try:
        with open(path, encoding="latin-1") as file:
            return read_properties(file.read())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"cannot read {path}: {reason}") from None


def _check(code: int, message: str | None) -> None:
    """Raises UsersFailed."""
    if code:
        name = ErrorCode(code).name
        raise UsersFailed(f"the cluster refuses: {name}" + (f": {message}" if message else ""))

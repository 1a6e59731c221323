"""The store's operations as ZooKeeper requests: under the chroot, with the access lists that Kafka gives its nodes. Pure.

Rules: paths of callers, also in errors, are below the chroot. With `zookeeper.set.acl` a new node belongs to its creator, and
is readable by all unless it may contain secrets; /consumers remains open, since old clients write below it. Without it every
node is open.
Source: Kafka ZkData.defaultAcls; ZooKeeper chroot handling in ZooKeeper.prependChroot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from metadata.store.port import OPEN_ACL, Acl, Create, Operation, OperationResult, Transaction, Watch
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.session import WatchTarget, ZooKeeperRequest
from metadata.store.zookeeper.wire import OpCode, Reader

# Nodes that must not be readable by all: users' credentials, brokers' passwords, delegation tokens.
SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
CONSUMERS_PATH: Final = "/consumers"


class Requests:
    """Makes requests for the tree under `chroot` ("" is the whole tree)."""

    def __init__(self, chroot: str, *, is_secure: bool) -> None:
        self._chroot = chroot
        self._is_secure = is_secure

    def server_path(self, path: str) -> str:
        return self._chroot or "/" if path == "/" else self._chroot + path

    def path(self, server_path: str) -> str:
        """Return the caller's path of a server path, which must be below the chroot."""
        assert server_path.startswith(self._chroot), f"{server_path} is not under {self._chroot}"
        return server_path[len(self._chroot) :] or "/"

    def acl(self, path: str) -> Sequence[Acl]:
        if not self._is_secure or path == CONSUMERS_PATH:
            return OPEN_ACL
        if any(path == each or path.startswith(f"{each}/") for each in SENSITIVE_PATHS):
            return (wire.CREATOR_ALL,)
        return (wire.CREATOR_ALL, wire.ANYONE_READS)

    # --- reads ---

    def get(self, path: str, watch: Watch | None, *, is_missing_none: bool = False) -> ZooKeeperRequest:
        return self._read(
            OpCode.GET_DATA, path, watch, WatchTarget.DATA, _read_data_and_stat, is_missing_none=is_missing_none
        )

    def exists(self, path: str, watch: Watch | None) -> ZooKeeperRequest:
        return self._read(OpCode.EXISTS, path, watch, WatchTarget.MISSING, Reader.stat, is_missing_none=True)

    def children(self, path: str, watch: Watch | None) -> ZooKeeperRequest:
        return self._read(OpCode.GET_CHILDREN, path, watch, WatchTarget.CHILDREN, _read_sorted_names)

    def sync(self, path: str) -> ZooKeeperRequest:
        return ZooKeeperRequest(
            OpCode.SYNC, wire.path_body(self.server_path(path)), path, Reader.text, is_repeatable=True
        )

    def _read(
        self,
        code: OpCode,
        path: str,
        watch: Watch | None,
        target: WatchTarget,
        read: wire.ReadBody,
        *,
        is_missing_none: bool = False,
    ) -> ZooKeeperRequest:
        server_path = self.server_path(path)
        return ZooKeeperRequest(
            code,
            wire.watched_path_body(server_path, is_watched=watch is not None),
            path,
            read,
            is_repeatable=True,
            is_missing_none=is_missing_none,
            watch=watch,
            watch_target=target,
            server_path=server_path,
        )

    # --- writes ---

    def write(self, operation: Operation) -> ZooKeeperRequest:
        """Make the request of one operation."""
        code, body = self._operation(operation)
        return ZooKeeperRequest(
            code,
            body,
            operation.path,
            lambda reader: self._result(wire.read_operation_result(code, reader)),
            is_repeatable=False,
        )

    def multi(self, operations: Transaction) -> ZooKeeperRequest:
        paths = [operation.path for operation in operations]

        def read(reader: Reader) -> list[OperationResult]:
            return [self._result(result) for result in wire.read_multi_results(reader, paths)]

        body = wire.multi_body(map(self._operation, operations))
        return ZooKeeperRequest(OpCode.MULTI, body, paths[0] if paths else "", read, is_repeatable=False)

    def _operation(self, operation: Operation) -> tuple[OpCode, bytes]:
        """A list that the caller gives goes as it is."""
        acl = self.acl(operation.path)
        if isinstance(operation, Create) and operation.acl != OPEN_ACL:
            acl = operation.acl
        return wire.operation_body(operation, self.server_path(operation.path), acl)

    def _result(self, result: OperationResult) -> OperationResult:
        return self.path(result) if isinstance(result, str) else result


def _read_data_and_stat(reader: Reader) -> object:
    data = reader.opaque()
    return data, reader.stat()


def _read_sorted_names(reader: Reader) -> list[str]:
    return sorted(reader.texts())

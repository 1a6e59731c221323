"""One of the broker's `log.dirs`: its lock, its identity, its checkpoints, and the folders of its partitions.

Files, all Kafka's: `.lock` (held while the broker lives), `meta.properties` (whose data this is),
`.kafka_cleanshutdown` (written last at a clean stop, removed before loading; empty or unreadable counts as unclean),
`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks),
`cleaner-offset-checkpoint`.
A partition's folder is `<topic>-<partition>`; set aside for deletion it is `<topic>-<partition>.<uuid>-delete`, and a copy
of a log of another directory is `<topic>-<partition>.<uuid>-future`. Any other folder is somebody else's: it stops the start,
and is never touched.

Rules: blocking; called at start and stop, and in the directory's queue in between. A `meta.properties` that is there says whose
data this is, or it is damaged and stops the start: every release of Apache Kafka that writes one writes version and
broker.id, and from 0.10.1 on cluster.id. (Apache Kafka takes an empty one for a new directory's, and the broker may become
another one by that, for good.)
Invariant: a checkpoint is replaced as a whole and is on the disk when the call returns.
Source: Kafka LogManager, MetaPropertiesEnsemble, CleanShutdownFileHandler, LocalLog (folder names).
"""

from __future__ import annotations

import errno
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern

from config.sources import read_properties
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import FileLock, FileSystem
from runtime.error_texts import reason_of
from storage.checkpoint import CorruptCheckpoint, decode_offsets, encode_offsets
from storage.folder_files import parent_of

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
REPLICATION_OFFSET_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
_CUT_SHORT = frozenset(
    f"{name}.tmp"
    for name in (
        META_PROPERTIES_FILE,
        CLEAN_SHUTDOWN_FILE,
        RECOVERY_POINT_FILE,
        LOG_START_OFFSET_FILE,
        REPLICATION_OFFSET_FILE,
        CLEANER_OFFSET_FILE,
    )
)

BROKER_FOLDER = "broker_"
"""What the folders of several brokers begin with that one command has started (`barnabas start --brokers`): then the directory
is theirs together, and no broker's own. No partition's folder has such a name, which would end in a dash and a number."""
STORE_FOLDER = "barnabas_store"
"""Beside them, in the first directory: the folder of their store's file."""
_BROKER_FOLDER = re.compile(rf"{BROKER_FOLDER}[0-9]+")
UNKNOWN_BROKER_EPOCH = -1
DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
# A folder of the file system, and one of Apache Kafka that is not a partition.
_FOREIGN_FOLDERS = frozenset({"lost+found", "remote-log-index-cache"})
_MAX_FOLDER_NAME = 255
_MAX_PARTITION = (1 << 31) - 1
# What goes is told by a whole name: nobody calls a folder of his own so.
_DELETED = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-delete", re.DOTALL)

Offsets = Mapping[TopicPartition, int]


class DirectoryRefused(Exception):
    """The broker must not start on this directory; the message says why, to the operator."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of `meta.properties`: None for values that no file has. `path` is that of the file."""

    broker_id: int | None = None
    cluster_id: str | None = None
    path: str = field(default="", compare=False)

    @classmethod
    def parse(cls, path: str, content: bytes) -> MetaProperties:
        """Raises DirectoryRefused."""
        try:
            values = {name: value.strip() for name, value in read_properties(content.decode("latin-1")).items()}
        except ValueError as error:
            raise _damaged(path, str(error)) from error
        version, broker_id, cluster_id = (values.get(name) for name in ("version", "broker.id", "cluster.id"))
        if version == "1":
            raise DirectoryRefused(f"{path} cannot be used: its version is 1, that of a broker without ZooKeeper.")
        if version != "0":
            raise _damaged(path, "it has no version=0")
        if broker_id is None or not (broker_id.isascii() and broker_id.isdigit()):
            raise _damaged(path, "it names no broker.id")
        if cluster_id == "":
            raise _damaged(path, "its cluster.id is empty")
        return cls(int(broker_id), cluster_id, path)

    def format(self) -> bytes:
        return f"#\nbroker.id={self.broker_id}\nversion=0\ncluster.id={self.cluster_id}\n".encode()


def _damaged(path: str, problem: str) -> DirectoryRefused:
    return DirectoryRefused(
        f"{path} is damaged: {problem}. Give it its lines again (version=0, broker.id=<of this broker>, cluster.id=<of its "
        "cluster>; the other log.dirs have the same). Where broker.id is set, or there is no zookeeper.connect, it may be "
        "removed, and is made anew."
    )


def parse_partition_folder(name: str) -> TopicPartition | None:
    """Parse (topic, partition) from a folder's name, None for any other name."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    if int(partition) > _MAX_PARTITION:
        return None
    return intern(topic), int(partition)  # one string for all partitions of a topic


def future_folder(topic: str, partition: int, unique: bytes) -> str:
    """The name of the folder of a log's copy. A topic name may be too long for it: see `is_future_name_too_long`."""
    return f"{topic}-{partition}.{unique.hex()}{FUTURE_SUFFIX}"


def is_future_name_too_long(topic: str, partition: int) -> bool:
    """Whether no log of this partition can be moved, as in Apache Kafka (KAFKA-4893)."""
    return len(future_folder(topic, partition, bytes(16))) > _MAX_FOLDER_NAME


def parse_future_folder(name: str) -> TopicPartition | None:
    """Parse (topic, partition) from the name of a copy's folder, None for any other name."""
    return _parse_set_aside(name, FUTURE_SUFFIX)


def partition_of_folder(name: str) -> TopicPartition | None:
    """Parse (topic, partition) from a folder of any kind, also one that was set aside; None for any other name."""
    own = parse_partition_folder(name)
    for suffix in (FUTURE_SUFFIX, DELETE_SUFFIX, STRAY_SUFFIX):
        own = own or _parse_set_aside(name, suffix)
    return own


def _parse_set_aside(name: str, suffix: str) -> TopicPartition | None:
    partition, _dot, unique = name.removesuffix(suffix).rpartition(".")
    return parse_partition_folder(partition) if unique and name.endswith(suffix) else None


def deletion_folder(topic: str, partition: int, unique: bytes) -> str:
    """Return the name of a folder set aside: a long topic name is shortened to the limit of the file system."""
    suffix = f"-{partition}.{unique.hex()}{DELETE_SUFFIX}"
    return topic[: _MAX_FOLDER_NAME - len(suffix)] + suffix


def broker_folders(filesystem: FileSystem, path: str) -> list[str]:
    """Return the names of the folders in `path` that are each of another broker of one command. Raises OSError."""
    return [name for name in filesystem.list_directory(path) if _BROKER_FOLDER.fullmatch(name)]


class LogDirectory:
    """One directory of `log.dirs`. Call `lock` first, then read or write."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        self._lock: FileLock | None = None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    # --- ownership ---

    def lock(self) -> None:
        """Create the directory if it is missing, and lock it. Raises DirectoryRefused, OSError."""
        if not self._filesystem.exists(self.path):
            self._filesystem.make_directory(self.path)
            self._filesystem.sync_directory(parent_of(self.path))
        if not self._filesystem.is_directory(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", self.path)
        count = len(broker_folders(self._filesystem, self.path))
        if count:
            raise DirectoryRefused(
                f"{self.path} has the data of {count} {'broker' if count == 1 else 'brokers'} that one command starts: "
                f"barnabas start --brokers {count}, with the other options as they are. A lone broker needs other log.dirs."
            )
        self._lock = self._filesystem.lock(self._file(LOCK_FILE))
        if self._lock is None:
            raise DirectoryRefused(
                f"Failed to acquire the lock {self._file(LOCK_FILE)}: another broker is using {self.path}, or log.dirs names "
                "it twice, through a link."
            )

    def unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def read_meta(self) -> MetaProperties | None:
        """Read `meta.properties`; None when there is none. Raises DirectoryRefused, OSError."""
        path = self._file(META_PROPERTIES_FILE)
        try:
            content = self._filesystem.read_bytes(path)
        except FileNotFoundError:
            return None
        return MetaProperties.parse(path, content)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write the broker's identity, unless the file contains it. Raises DirectoryRefused, OSError."""
        own = MetaProperties(broker_id, cluster_id)
        if self.read_meta() != own:
            self._filesystem.replace(self._file(META_PROPERTIES_FILE), own.format())

    # --- clean stops ---

    def take_clean_shutdown(self) -> tuple[bool, int]:
        """Return (whether the last stop was clean, the broker epoch in the marker), and remove the marker durably."""
        path = self._file(CLEAN_SHUTDOWN_FILE)
        try:
            content = self._filesystem.read_bytes(path)
        except FileNotFoundError:
            content = None  # which a broker that was killed may have done, and not for good
        else:
            self._filesystem.unlink(path)
        self._filesystem.sync_directory(self.path)  # otherwise a loss of power would bring it back
        if content is None:
            return False, UNKNOWN_BROKER_EPOCH
        try:
            marker = json.loads(content)
            if marker["version"] != 0:
                raise ValueError(f"version {marker['version']}")
            return True, int(marker.get("brokerEpoch", UNKNOWN_BROKER_EPOCH))
        except (ValueError, KeyError, TypeError) as error:
            logger.warning(
                "clean shutdown marker unreadable, treated as an unclean shutdown: path=%s error=%s",
                path,
                reason_of(error),
            )
            return False, UNKNOWN_BROKER_EPOCH

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._filesystem.replace(self._file(CLEAN_SHUTDOWN_FILE), marker.encode())

    # --- checkpoints ---

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        """Read a checkpoint; None when it is missing or unreadable, because its content can be recovered."""
        try:
            return decode_offsets(self._filesystem.read_bytes(self._file(name)))
        except FileNotFoundError:
            return None
        except CorruptCheckpoint as error:
            logger.warning("checkpoint unreadable, ignored: path=%s error=%s", self._file(name), str(error))
            return None

    def write_checkpoint(self, name: str, offsets: Offsets) -> None:
        self._filesystem.replace(self._file(name), encode_offsets(offsets))

    # --- folders ---

    def partition_folders(self) -> dict[TopicPartition, str]:
        """The folders of partitions by what they hold. Folders set aside are removed, and so is what a write of a file
        left when it was cut short. Raises DirectoryRefused."""
        found: dict[TopicPartition, str] = {}
        for name in self._filesystem.list_directory(self.path):
            path = self._file(name)
            if name in _CUT_SHORT:
                self._filesystem.unlink(path)
                continue
            if name in _FOREIGN_FOLDERS or not self._filesystem.is_directory(path):
                continue
            if _DELETED.fullmatch(name):
                self._filesystem.remove_tree(path)
                continue
            if _parse_set_aside(name, FUTURE_SUFFIX):
                continue  # see `future_folders`
            if _parse_set_aside(name, STRAY_SUFFIX):
                logger.warning("folder ignored, it is not a log's: path=%s", path)
                continue
            key = parse_partition_folder(name)
            if key is None:
                raise DirectoryRefused(
                    f"Found directory {path}: its name is not topic-partition, nor one with .uuid-delete, -future or -stray. "
                    "Kafka's log directories hold nothing else; move it away, or choose another log.dirs."
                )
            if key in found:
                raise DirectoryRefused(
                    f"{key[0]}-{key[1]} is in two folders: {found[key]} and {path}. Keep the one with its records."
                )
            found[key] = path
        return found

    def future_folders(self) -> list[tuple[TopicPartition, str]]:
        """Return the folders of copies (`storage.directories.future_logs`), with the partitions that they are copies of."""
        named = [(parse_future_folder(name), self._file(name)) for name in self._filesystem.list_directory(self.path)]
        return [(key, path) for key, path in named if key is not None and self._filesystem.is_directory(path)]

    def total_bytes(self) -> int:
        return self._filesystem.total_bytes(self.path)

    def free_bytes(self) -> int:
        return self._filesystem.free_bytes(self.path)


def stored_identity(directories: Sequence[LogDirectory]) -> MetaProperties:
    """Return the identity that the directories share; None for values that no file has. Raises OSError, and DirectoryRefused
    when they disagree."""
    known = MetaProperties()
    for directory in directories:
        meta = directory.read_meta()
        if meta is None:
            continue
        for name, one, other in (
            ("broker", known.broker_id, meta.broker_id),
            ("cluster", known.cluster_id, meta.cluster_id),
        ):
            if None not in (one, other) and one != other:
                raise DirectoryRefused(
                    f"{known.path} and {meta.path} name different {name}s: {one} and {other}. "
                    f"All log.dirs must belong to one {name}."
                )
        if known.broker_id is None or (known.cluster_id is None and meta.cluster_id is not None):
            known = meta
    return known


def check_identity(stored: MetaProperties, broker_id: int, cluster_id: str, store: str) -> None:
    """`store` says where `cluster_id` is from. Raises DirectoryRefused when the directories are not those of broker `broker_id`
    in `cluster_id`."""
    if stored.cluster_id not in (None, cluster_id):
        raise DirectoryRefused(
            f"The cluster id {cluster_id} does not match {stored.cluster_id}, which {stored.path} holds: this data is another "
            f"cluster's. {cluster_id} is that of {store}: is it the right one, the one that came with this data?"
        )
    if stored.broker_id not in (None, broker_id):
        raise DirectoryRefused(
            f"The configured broker.id {broker_id} does not match {stored.broker_id}, which {stored.path} holds. To be the "
            f"broker of this data, leave broker.id unset, or -1 (with broker.id.generation.enable=false, set "
            f"broker.id={stored.broker_id}); for a new broker, name other log.dirs."
        )

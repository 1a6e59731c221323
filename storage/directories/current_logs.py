"""The logs that this broker serves, and the settings of their topics.

    folder  --`request_for`-->  read by a job  --`make`-->  log  --`add`-->  served  --`remove`-->  not served

Rules: runs on the event loop, and touches no disk. A topic's settings are one object for all its logs, asked for when
its first log is opened, and forgotten with its last one: a topic of this name will be another one.
Invariant: a log is in `logs` exactly while it is in the `logs` of a directory that is online.
Source: Kafka LogManager.currentLogs, loadLog, updateTopicConfig.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from storage.directories.log_directory import DirectoryRefused
from storage.directories.online_directory import OnlineDirectory
from storage.log.loading import LoadedLog, LoadRequest
from storage.log.partition_log import PartitionLog
from storage.segments.segment import full_bytes

logger = logging.getLogger(__name__)


class CurrentLogs:
    """The served logs. `logs` by partition. `settings` returns the broker's settings, `config_of(topic)` a topic's, at any
    time."""

    def __init__(
        self, settings: Callable[[], BrokerSettings], clock: Clock, config_of: Callable[[str], LogConfig]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._config_of = config_of
        self._configs: dict[str, LogConfig] = {}
        self._topic_logs: Counter[str] = Counter()
        self.logs: dict[TopicPartition, PartitionLog] = {}

    def _config(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = self._config_of(topic)
        return config

    # --- opening ---

    def request_for(self, directory: OnlineDirectory, key: TopicPartition, path: str) -> LoadRequest:
        """Return the request to load the log in a folder."""
        config = self._config(key[0])
        return LoadRequest(
            path,
            is_clean=directory.is_clean,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            recovery_point=directory.checkpoints.recovery_point(key),
            # Gaps stay when the topic's settings change.
            is_compacted=config.is_compacted or directory.checkpoints.first_dirty_offset(key) is not None,
            log_start_offset=directory.checkpoints.log_start_offset(key),
            producer_expiration_ms=self._settings().producer_id_expiration_ms,
            full_bytes=full_bytes(config.segment_bytes, config.max_message_bytes),
            flushes_appends=config.flushes_appends,
        )

    def request_for_new(self, key: TopicPartition, path: str, topic_id: bytes) -> LoadRequest:
        """Return the request to load a log whose folder is created first."""
        return LoadRequest(
            path,
            is_clean=False,
            index_interval_bytes=self._config(key[0]).index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            topic_id=topic_id,
        )

    def make(self, directory: OnlineDirectory, key: TopicPartition, path: str, loaded: LoadedLog) -> PartitionLog:
        """Create a log from the loaded state."""
        log = PartitionLog(key, path, self._config(key[0]), directory.environment, loaded)
        log.high_watermark = max(
            log.log_start_offset, min(directory.checkpoints.high_watermark(key), log.log_end_offset)
        )
        first_dirty_offset = directory.checkpoints.first_dirty_offset(key)
        if first_dirty_offset is not None:
            # Of a log that has lost its end since: what is appended there was never cleaned. It keeps its name, for the gaps.
            log.offsets.first_dirty_offset = min(first_dirty_offset, log.log_end_offset)
        return log

    # --- coming and going ---

    def register(self, directory: OnlineDirectory, key: TopicPartition, path: str, loaded: LoadedLog) -> PartitionLog:
        """Create a log from the loaded state and serve it. Raises DirectoryRefused when the partition has a log already."""
        if key in self.logs:
            raise DirectoryRefused(
                f"{key[0]}-{key[1]} is in two log directories: {self.logs[key].directory} and {path}. Keep the one with its "
                "records."
            )
        log = self.make(directory, key, path, loaded)
        high_watermark = directory.checkpoints.high_watermark(key)
        if high_watermark > log.log_end_offset:  # of a copy that has just begun it may be the log's of before
            logger.warning(
                "log ends below its high watermark, records are missing: path=%s end_offset=%d "
                "high_watermark=%d",
                path, log.log_end_offset, high_watermark,
            )  # fmt: skip
        self.add(directory, key, log)
        return log

    def add(self, directory: OnlineDirectory, key: TopicPartition, log: PartitionLog) -> None:
        """Serve `log` as the partition's from now on."""
        directory.logs[key] = self.logs[key] = log
        self._topic_logs[key[0]] += 1
        # The log that it replaces has taken the settings along, if it was the topic's last.
        self._configs.setdefault(key[0], log.config)

    def remove(self, directory: OnlineDirectory, key: TopicPartition) -> None:
        """Stop serving the partition's log."""
        del directory.logs[key]
        self._forget(key)

    def remove_all(self, directory: OnlineDirectory) -> None:
        """Stop serving the logs of a directory that is offline; it keeps them until their files are closed."""
        for key in directory.logs:
            self._forget(key)

    def _forget(self, key: TopicPartition) -> None:
        del self.logs[key]
        self._topic_logs[key[0]] -= 1
        if not self._topic_logs[key[0]]:
            del self._topic_logs[key[0]], self._configs[key[0]]

    # --- settings ---

    def update_configs(self, topic: str | None, copies: Iterable[PartitionLog]) -> None:
        """Apply changed settings of a topic, or (None) of the broker. `copies`: logs that are not served yet, and need them
        too."""
        concerned = list(self._configs) if topic is None else [topic] if topic in self._configs else []
        if concerned:
            self._configs.update((each, self._config_of(each)) for each in concerned)
            for log in chain(self.logs.values(), copies):
                log.configure(self._config(log.topic))  # a copy may be all that is left of its topic here

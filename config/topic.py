"""Settings of a topic, and the effective ones of a log.

A topic's own settings come first, then the broker's under the names in `synonyms`, then the broker's default.
Rules: pure; an immutable value. Source: Kafka LogConfig, ServerTopicConfigSynonyms, extractLogConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from config.definition import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    GiB,
    KiB,
    MiB,
    SettingTable,
    setting,
)
from config.errors import ConfigError
from config.validators import METADATA_VERSIONS, THROTTLED_REPLICAS, at_least, between, one_of
from runtime.suggestions import nearest

if TYPE_CHECKING:
    from config.broker import BrokerSettings


class LogConfig(SettingTable):
    """The effective settings of one topic, as attributes: the wire name with underscores for dots. Those whose names begin
    with `barnabas.` are ours; brokers of Apache Kafka do not know them."""

    barnabas_message_ttl_ms: int = setting("barnabas.message.ttl.ms", LONG, -1, at_least(-1), effective=True,
        doc="Time after which records expire: the leader deletes from the start of the log, every second, the batches whose "
        "newest record is older; -1 never.")
    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy", LIST, ("delete",), one_of("compact", "delete"), effective=True,
        synonyms=("log.cleanup.policy",),
        doc="What happens to old segments: delete, compact, or both.")
    compression_gzip_level: int = setting("compression.gzip.level", INT, -1, between(1, 9, also=-1), effective=True,
        synonyms=("compression.gzip.level",),
        doc="Level used when the broker compresses with gzip.")
    compression_lz4_level: int = setting("compression.lz4.level", INT, 9, between(1, 17), effective=True,
        synonyms=("compression.lz4.level",),
        doc="Level used when the broker compresses with lz4.")
    compression_type: str = setting(
        "compression.type", STRING, "producer", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip",
        "producer"), effective=True,
        synonyms=("compression.type",),
        doc="Codec in which the log keeps batches: a codec, uncompressed, or producer for whatever the producer chose.")
    compression_zstd_level: int = setting("compression.zstd.level", INT, 3, between(-131_072, 22), effective=True,
        synonyms=("compression.zstd.level",),
        doc="Level used when the broker compresses with zstd.")
    delete_retention_ms: int = setting("delete.retention.ms", LONG, DAY_MS, at_least(0), effective=True,
        synonyms=("log.cleaner.delete.retention.ms",),
        doc="Time a delete marker stays in a compacted topic.")
    file_delete_delay_ms: int = setting("file.delete.delay.ms", LONG, 60_000, at_least(0), effective=True,
        synonyms=("log.segment.delete.delay.ms",),
        doc="Time a deleted file stays on the disk.")
    flush_messages: int = setting("flush.messages", LONG, LONG_MAX, at_least(1), effective=True,
        synonyms=("log.flush.interval.messages",),
        doc="Records after which the log is flushed to the disk.")
    flush_ms: int = setting("flush.ms", LONG, LONG_MAX, at_least(0), effective=True,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="Time after which the log is flushed to the disk.")
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas", LIST, (), THROTTLED_REPLICAS, effective=True,
        doc="Replicas whose copying is throttled on the follower: partition:broker pairs, or * for all.")
    index_interval_bytes: int = setting("index.interval.bytes", INT, 4 * KiB, at_least(0), effective=True,
        synonyms=("log.index.interval.bytes",),
        doc="Bytes of records between two index entries.")
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas", LIST, (), THROTTLED_REPLICAS, effective=True,
        doc="Replicas whose copying is throttled on the leader: partition:broker pairs, or * for all.")
    local_retention_bytes: int = setting("local.retention.bytes", LONG, -2, at_least(-2),
        synonyms=("log.local.retention.bytes",),
        doc="Size the partition keeps on the local disk with remote storage, in bytes; -2 as retention.")
    local_retention_ms: int = setting("local.retention.ms", LONG, -2, at_least(-2),
        synonyms=("log.local.retention.ms",),
        doc="Time a segment stays on the local disk after it was copied to remote storage; -2 as retention.")
    max_compaction_lag_ms: int = setting("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), effective=True,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="Time a record stays uncompacted at most.")
    max_message_bytes: int = setting("max.message.bytes", INT, 1_048_588, at_least(0), effective=True,
        synonyms=("message.max.bytes",),
        doc="Largest batch that is taken, in bytes, after compression.")
    message_downconversion_enable: bool = setting("message.downconversion.enable", BOOLEAN, True, effective=True,
        synonyms=("log.message.downconversion.enable",),
        doc="Whether records are converted for consumers that know only old formats.")
    message_format_version: str = setting("message.format.version", STRING, "3.0-IV1", METADATA_VERSIONS,
        synonyms=("log.message.format.version",),
        doc="Record format before 3.0; kept for old topics.")
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms", LONG, LONG_MAX, at_least(0), effective=True,
        synonyms=("log.message.timestamp.after.max.ms",),
        doc="How far a record's timestamp may lie in the future.")
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), effective=True,
        synonyms=("log.message.timestamp.before.max.ms",),
        doc="How far a record's timestamp may lie in the past.")
    message_timestamp_difference_max_ms: int = setting(
        "message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), effective=True,
        synonyms=("log.message.timestamp.difference.max.ms",),
        doc="Largest distance of a record's timestamp from the broker's clock; deprecated.")
    message_timestamp_type: str = setting(
        "message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"), effective=True,
        synonyms=("log.message.timestamp.type",),
        doc="Whose clock a record's timestamp is: CreateTime or LogAppendTime.")
    min_cleanable_dirty_ratio: float = setting("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), effective=True,
        synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="Share of the log that must be uncleaned before it is cleaned.")
    min_compaction_lag_ms: int = setting("min.compaction.lag.ms", LONG, 0, at_least(0), effective=True,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="Time a record stays uncompacted at least.")
    min_insync_replicas: int = setting("min.insync.replicas", INT, 1, at_least(1), effective=True,
        synonyms=("min.insync.replicas",),
        doc="In-sync replicas without which a produce with acks=all is refused.")
    preallocate: bool = setting("preallocate", BOOLEAN, False,
        synonyms=("log.preallocate",),
        doc="Whether a new segment takes its full size at once.")
    remote_log_copy_disable: bool = setting("remote.log.copy.disable", BOOLEAN, False,
        doc="Whether copying to remote storage stops and what is there becomes read-only.")
    remote_log_delete_on_disable: bool = setting("remote.log.delete.on.disable", BOOLEAN, False,
        doc="Whether remote segments go when remote storage is switched off.")
    remote_storage_enable: bool = setting("remote.storage.enable", BOOLEAN, False,
        doc="Whether remote storage is used for this topic.")
    retention_bytes: int = setting("retention.bytes", LONG, -1, effective=True,
        synonyms=("log.retention.bytes",),
        doc="Size of a partition above which its oldest segments may be deleted, in bytes; -1 never.")
    retention_ms: int = setting("retention.ms", LONG, 7 * DAY_MS, at_least(-1), effective=True,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="Time after which a segment may be deleted; -1 never.")
    segment_bytes: int = setting("segment.bytes", INT, GiB, at_least(14), effective=True,
        synonyms=("log.segment.bytes",),
        doc="Size at which the active segment rolls, in bytes.")
    segment_index_bytes: int = setting("segment.index.bytes", INT, 10 * MiB, at_least(4), effective=True,
        synonyms=("log.index.size.max.bytes",),
        doc="Size of an index file at most, in bytes.")
    segment_jitter_ms: int = setting("segment.jitter.ms", LONG, 0, at_least(0), effective=True,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        doc="Random time taken off the rolling age, so that segments do not roll together.")
    segment_ms: int = setting("segment.ms", LONG, 7 * DAY_MS, at_least(1), effective=True,
        synonyms=("log.roll.ms", "log.roll.hours"),
        doc="Age of the active segment at which it rolls.")
    unclean_leader_election_enable: bool = setting("unclean.leader.election.enable", BOOLEAN, False, effective=True,
        synonyms=("unclean.leader.election.enable",),
        doc="Whether a replica outside the in-sync set may lead when no other is left, losing records.")

    @classmethod
    def from_settings(cls, broker_settings: BrokerSettings, overrides: Mapping[str, str]) -> LogConfig:
        """Return the settings of a topic with `overrides` on a broker with `broker_settings`.

        `overrides` are those of the topic's znode; unknown names are ignored. Raises ConfigError.
        """
        config = cls(overrides)
        state = config.__dict__
        for name, row in cls.definitions.items():
            if name not in overrides and row.synonyms:
                value = _from_broker(broker_settings, row.synonyms)
                state["_values"][name] = value
                state[row.attribute] = value
        return config

    @property
    def flushes_appends(self) -> bool:
        """Whether each append is flushed before it is acknowledged."""
        return self.flush_messages == 1

    @cached_property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def roll_ms(self) -> int:
        """Return the age at which the active segment rolls: a compacted log's active segment cannot be cleaned, so it has to
        end before its records are due."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @cached_property
    def deletes_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @cached_property
    def ttl_ms(self) -> int | None:
        """Return the age at which records expire; None when they do not. Those of a topic that is only compacted stay."""
        ttl_ms = self.barnabas_message_ttl_ms
        return ttl_ms if ttl_ms >= 0 and self.deletes_by_retention else None

    @cached_property
    def timestamp_before_max_ms(self) -> int:
        """Return how old a timestamp may be; the deprecated setting applies if the newer one is not set."""
        newer = self.message_timestamp_before_max_ms
        return self.message_timestamp_difference_max_ms if newer == LONG_MAX else newer

    @cached_property
    def timestamp_after_max_ms(self) -> int:
        """Return how far a timestamp may be in the future."""
        newer = self.message_timestamp_after_max_ms
        return self.message_timestamp_difference_max_ms if newer == LONG_MAX else newer


# Topic settings whose broker side is derived from several rows.
_DERIVED = {
    "log.retention.ms": "log_retention_effective_ms",
    "log.roll.ms": "log_roll_effective_ms",
    "log.roll.jitter.ms": "log_roll_jitter_effective_ms",
    "log.flush.interval.ms": "log_flush_effective_ms",
}


def _from_broker(settings: BrokerSettings, synonyms: tuple[str, ...]) -> object:
    derived = _DERIVED.get(synonyms[0])
    return settings.value(synonyms[0]) if derived is None else getattr(settings, derived)


_OF_BROKERS = {synonym: name for name, row in LogConfig.definitions.items() for synonym in row.synonyms}


def topic_setting_hint(name: str) -> str:
    """Return `: did you mean X?`, or the topic's name of a broker's setting, to follow the message about an unknown name of
    a topic's setting; nothing where no name is like it."""
    if name in _OF_BROKERS:
        return f": it is a broker's, the topic's is {_OF_BROKERS[name]}"
    found = nearest(name.lower(), (*LogConfig.definitions, *_OF_BROKERS))
    return "" if found is None else f": did you mean {_OF_BROKERS.get(found, found)}?"


def check_topic_settings(given: Mapping[str, str], broker_settings: BrokerSettings) -> LogConfig:
    """Check `given` before CreateTopics or AlterConfigs stores it. Raises ConfigError."""
    for name in given:
        if name not in LogConfig.definitions:
            raise ConfigError(f"Unknown topic config name: {name}{topic_setting_hint(name)}")
    config = LogConfig.from_settings(broker_settings, given)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    if config.barnabas_message_ttl_ms >= 0 and not config.deletes_by_retention:
        raise ConfigError(
            f"conflict topic config setting barnabas.message.ttl.ms ({config.barnabas_message_ttl_ms}) with cleanup.policy "
            f"({config.text('cleanup.policy')}): only records of a topic with cleanup.policy delete expire"
        )
    if config.remote_storage_enable and not broker_settings.remote_log_storage_system_enable:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return config

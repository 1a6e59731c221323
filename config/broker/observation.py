"""Metrics and quota windows.

Source: Kafka MetricConfigs, QuotaConfigs.
"""

from __future__ import annotations

from config.definition import BOOLEAN, CLUSTER_WIDE, INT, LIST, LONG, STRING, SettingTable, setting
from config.validators import at_least


class ObservationSettings(SettingTable):
    auto_include_jmx_reporter: bool = setting("auto.include.jmx.reporter", BOOLEAN, True,
        doc="Whether Java's JMX reporter is added by itself.")
    kafka_metrics_polling_interval_secs: int = setting("kafka.metrics.polling.interval.secs", INT, 10, at_least(1),
        doc="Time between polls of Java metrics reporters.")
    kafka_metrics_reporters: tuple[str, ...] = setting("kafka.metrics.reporters", LIST, (),
        doc="Java metrics reporters of the older kind.")
    metric_reporters: tuple[str, ...] = setting("metric.reporters", LIST, (), None, CLUSTER_WIDE,
        doc="Java metrics reporters.")
    metrics_num_samples: int = setting("metrics.num.samples", INT, 2, at_least(1),
        doc="Samples kept for rates.")
    metrics_recording_level: str = setting("metrics.recording.level", STRING, "INFO",
        doc="Detail in which metrics are recorded.")
    metrics_sample_window_ms: int = setting("metrics.sample.window.ms", LONG, 30_000, at_least(1),
        doc="Length of a sample of a rate.")
    quota_window_num: int = setting("quota.window.num", INT, 11, at_least(1), effective=True,
        doc="Samples kept of client rates.")
    quota_window_size_seconds: int = setting("quota.window.size.seconds", INT, 1, at_least(1), effective=True,
        doc="Length of a sample of client rates.")

"""kafka-python and aiokafka, which warn while they are imported."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
    from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
    from kafka import codec as kafka_codec
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

__all__ = ["AiokafkaBuilder", "AiokafkaRecords", "KafkaPythonBuilder", "KafkaPythonRecords", "kafka_codec"]

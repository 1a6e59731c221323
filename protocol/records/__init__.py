"""Record batches of format v2, read and written in place: header view, checks, records, codecs, control records; and the
messages of before (`legacy`), together with which logs hold them (`any_format`).

Rules: pure. A batch stays the bytes it came as; record objects are made only for those who look into records.
Source: KIP-98; Kafka DefaultRecordBatch, DefaultRecord, LegacyRecord, MemoryRecords.
"""

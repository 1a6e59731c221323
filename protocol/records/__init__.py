"""Record batches of format v2, read and written in place: header view, checks, records, codecs, control records; the older
message formats (`legacy`), and readers of logs that contain both (`any_format`).

Rules: pure. A batch stays in the bytes in which it was received; record objects are made only for callers that need records.
Source: KIP-98; Kafka DefaultRecordBatch, DefaultRecord, LegacyRecord, MemoryRecords.
"""

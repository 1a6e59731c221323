"""The Kafka wire protocol: messages, codecs, headers, frames, record batches. No IO."""

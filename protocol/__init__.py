"""The Kafka wire protocol: messages, their codecs, headers, frames, record batches. No IO, except in `client`."""

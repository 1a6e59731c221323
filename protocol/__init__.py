"""The Kafka wire protocol: messages, codecs, headers, frames, record batches. No IO, except in `client` and `broker_client`."""

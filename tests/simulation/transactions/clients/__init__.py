"""Clients of transactions, which handle errors as Apache Kafka's producer and librdkafka do."""

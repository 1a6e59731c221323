"""`make bench`: this broker and Apache Kafka 3.9.1 side by side, under the same clients, on one machine."""

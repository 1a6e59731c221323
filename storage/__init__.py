"""The log on disk: segments, indexes, recovery, producers, and log directories, in Kafka's file formats."""

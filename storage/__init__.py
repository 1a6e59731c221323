"""The log on disk: segments, indexes, recovery, producers, and the directories that hold them, in Kafka's own files."""

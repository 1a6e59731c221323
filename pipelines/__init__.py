"""Spark jobs that people run against a broker: `archive` (topics to Parquet) and `aggregate` (windows, topic to topic)."""

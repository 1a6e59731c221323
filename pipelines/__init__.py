"""Spark jobs that people run against a broker: `archive` (topics to Parquet), `aggregate` (windows, topic to topic),
and `example`, which shows both."""

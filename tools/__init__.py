"""The command line for any Kafka cluster: topics, settings, groups, records, and what is wrong. The top layer: it speaks the
wire protocol through client libraries, and imports nothing of the broker but the reading of properties files.
"""

"""Coordinators: state machines on the partitions of internal topics (`shard`), their host, and the groups."""

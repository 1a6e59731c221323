"""Requests that wait for partitions: for the log end, the high watermark, or other replicas."""

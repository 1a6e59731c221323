"""Moves partitions between the log directories of this broker."""

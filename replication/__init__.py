"""Partitions as this broker keeps them: leadership, high watermark, parked requests, fetch sessions."""

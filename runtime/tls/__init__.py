"""TLS in memory, over any network."""

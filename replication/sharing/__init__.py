"""Share partitions: what share groups have in flight of the partitions that this broker leads."""

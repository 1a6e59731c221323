"""The group coordinator as a pure core: groups of two kinds and their offsets; `shard.GroupShard` is its door. No IO."""

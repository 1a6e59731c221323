"""The classic group coordinator as a pure core; `shard.GroupShard` is its door. No IO, no clock."""

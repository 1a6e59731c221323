"""What every coordinator stands on: the contract of a shard, its context, and the shards that this broker has."""

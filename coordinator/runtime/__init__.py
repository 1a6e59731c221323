"""The runtime of every coordinator: the contract of a shard, its context, and the shards of this broker."""

"""The state of share partitions: the pure state machine of one partition of `__share_group_state`."""

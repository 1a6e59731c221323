"""The partitions that this broker follows: what it fetches from their leaders, and when it truncates."""

"""What this broker's share groups need of other brokers: the states that share coordinators keep."""

"""Moving replicas between brokers and directories: plans as files, throttles, and carrying a plan out. It does what
kafka-reassign-partitions.sh does, and each understands what the other has begun.
"""

"""The APIs of share groups that the leaders of partitions and the share coordinator serve."""

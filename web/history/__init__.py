"""What the last hour was like: samples of the cluster, from which the page draws its plots."""

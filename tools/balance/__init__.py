"""Where replicas shall be, so that brokers have the same to do: the goals, and plans that come nearer to them. Pure, but for
`survey`, which asks the cluster.
"""

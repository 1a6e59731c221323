"""The metadata of the cluster: an immutable image, the store of its state, and the administration of topics."""

"""Topics, their partitions, where these are and who leads them."""

"""Writing one log: the order of its writes, its jobs, its files, and what of it is on the disk."""

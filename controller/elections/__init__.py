"""Leader elections: their rules, and those that are asked for."""

"""From options to rows: which offsets, what is fetched, and columns of record batches."""

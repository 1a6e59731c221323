"""What must hold of share groups: one file for each promise. Checkers listen, or judge what is left at the end, and
report."""

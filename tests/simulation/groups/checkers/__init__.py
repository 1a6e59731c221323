"""What must hold of groups: one file for each promise. Checkers listen, or judge the log of a group at the end, and
report."""

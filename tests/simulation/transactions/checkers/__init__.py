"""What must hold of transactions: one file for each anomaly. Checkers listen, or judge the logs at the end, and report."""

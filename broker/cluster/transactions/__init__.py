"""what brokers send each other for transactions: markers, verification, producer ids."""

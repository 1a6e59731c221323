"""What brokers tell and ask each other for transactions: markers, verification, producer ids."""

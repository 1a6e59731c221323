"""What one log knows of its producers: sequence numbers, open transactions, their verification."""

"""What a broker shows of itself: metrics, the HTTP port, log lines."""

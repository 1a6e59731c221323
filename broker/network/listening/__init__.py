"""The listeners of a broker: their settings and addresses, TLS, the ports."""

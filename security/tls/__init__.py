"""The settings of TLS, its key and trust stores, and the principals of certificates."""

"""The controller's requests to brokers: their content, versions and channels, and the responses."""

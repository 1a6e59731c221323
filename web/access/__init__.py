"""Who asks, and whether a request may come in at all: logins, sessions, what other sites may not do."""

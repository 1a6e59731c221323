"""Settings that change while the broker runs, and what a change does."""

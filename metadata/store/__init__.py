"""The tree store that coordinates a cluster: its port, its adapters, and every node that is kept in it."""

"""Handlers of client metrics: what clients are asked to push, and their pushes."""

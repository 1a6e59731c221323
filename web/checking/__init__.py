"""Checks of the cluster's health, for all who look."""

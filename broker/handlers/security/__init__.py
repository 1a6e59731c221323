"""Logins, users, delegation tokens and ACLs."""

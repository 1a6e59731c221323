"""Histories of groups: members of both protocols read what producers write, in clusters whose feature levels are on."""

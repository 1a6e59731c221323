"""Histories of share groups: members that take, acknowledge, hang and vanish, in clusters whose leaders and
coordinators fail."""

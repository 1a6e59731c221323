"""What groups have in common to whose members the coordinator assigns: consumer groups and share groups. Pure."""

"""Who uses share groups: members, those who acknowledge what is not theirs, and who looks at start offsets."""

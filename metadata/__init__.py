"""What a broker knows of its cluster: an immutable image, and how control requests change it."""

"""Client metrics (KIP-714): what clients are asked to push, what they have pushed, and the page that shows it."""

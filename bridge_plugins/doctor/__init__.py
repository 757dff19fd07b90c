"""What this environment has, what became of each plugin and patch in it, and what would get in the way."""

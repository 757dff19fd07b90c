"""Starting what a run is made of, and leaving nothing behind."""

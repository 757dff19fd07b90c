"""One monkey patch per file, each set an entry point of its own. Imports as ``bridge_plugins.patches``."""

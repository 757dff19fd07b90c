"""What may have happened to weights, one idea a file. `diagnosis.diagnose` asks them in turn."""

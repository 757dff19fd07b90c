"""How fast the fingerprint is: `python -m benchmarks.fingerprint`, with `--device cuda` on a GPU."""

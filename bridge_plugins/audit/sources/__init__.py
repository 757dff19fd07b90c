"""Where a model's records can be had from: an HF folder, summaries on disk, a running engine. Start with `parse`."""

"""What reading an HF folder costs, beside a plain checksum of the same files."""

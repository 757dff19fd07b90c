"""What a readback costs: beside the push that it proves, and beside SGLang's own checksum on the same server."""

"""What the audit adds to a push, per tensor: to the stream, to the wire, and once a version."""

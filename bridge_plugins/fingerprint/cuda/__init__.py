"""The fingerprint of CUDA tensors, in Triton: a table of blocks at rest, or one launch per tensor of a stream."""

"""The fingerprint of CUDA tensors, in Triton: tables of blocks at rest, one launch per tensor of a stream."""

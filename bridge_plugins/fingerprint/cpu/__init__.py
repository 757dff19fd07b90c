"""The fingerprint of CPU tensors, in numba: no copy, several cores, the GIL released."""

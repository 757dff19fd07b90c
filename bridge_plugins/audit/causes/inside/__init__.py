"""What may have happened inside a tensor. Each file has one hypothesis: ``explain(case)`` says it only if the
fingerprint of the tensor, put back the way the hypothesis has it, is the other side's.
"""

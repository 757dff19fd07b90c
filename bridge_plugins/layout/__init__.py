"""Which block of which HF tensor lies where in a process's memory: found out by loading coded weights, not written down."""

"""A parameter's name: parsed once, made global by two independent hooks, and checked for a whole cluster."""

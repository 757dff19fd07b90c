"""Public faults, injected at their true places: `catalogue.toml` lists them, tests with marker `fault` show them."""

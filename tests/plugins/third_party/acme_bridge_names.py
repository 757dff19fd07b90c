"""What another company's plugin package may look like: a patch of its own and a hook of its own."""

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patching import Replace


@hookimpl
def bridge_patches():
    return [Replace("acme.tau", "math:tau", "tau is too large", lambda tau: tau / 2)]


@hookimpl
def global_layer_number(name):
    return 7 if name.parts[0] == "acme" else None

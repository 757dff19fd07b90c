"""Found by Python's start-up when ``bridge-plugins run`` has put this folder on PYTHONPATH."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_here = str(Path(__file__).parent)

try:
    from bridge_plugins.autoload import install

    install()
except Exception as error:
    print(f"bridge_plugins: not loaded: {type(error).__name__}: {error}", file=sys.stderr)

# This file hides another sitecustomize further along the path: run that as Python would have.
_others = [entry for entry in sys.path if entry != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)

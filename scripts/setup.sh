#!/usr/bin/env bash
# Makes .venv with the pinned environment (both real stacks, and the tools of the tests), and this project in it.
# Takes about 4 minutes and 5.7 GB. PYTHON names the interpreter; else Python 3.12 is looked for on PATH and under pyenv.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.12 python3 python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python; do
        if usable "$candidate"; then echo "$candidate"; return; fi
    done
    echo "setup: no Python 3.12 with venv on PATH or under ${PYENV_ROOT:-$HOME/.pyenv}/versions;" \
         "install one (pyenv install 3.12) or name it: make PYTHON=/path/to/python3.12 …" >&2
    return 1
}

stamp=.venv/.complete
wanted=$(cat requirements/stacks.txt requirements/dev.txt pyproject.toml scripts/setup.sh | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

# A .venv that was left half made, or was made by another Python, is made anew.
if ! usable .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    echo "setup: making .venv with $("$python" --version) ($python)"
    rm -rf .venv
    "$python" -m venv .venv
fi
echo "setup: installing $(grep -hc '==' requirements/stacks.txt) pinned packages, about 5.7 GB; 4 minutes on a good line"
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
pip install --no-deps -r requirements/stacks.txt -r requirements/dev.txt
# Not isolated: setuptools is pinned like the rest, and nothing more is fetched.
pip install --no-deps --no-build-isolation --editable .
# numba compiles the fingerprint once per machine: here, and not in every rank of the first run at the same time.
.venv/bin/python -c 'import torch; from bridge_plugins.fingerprint import fingerprint; fingerprint(torch.ones(2, 2))'
echo "$wanted" > "$stamp"
echo "setup: done"

#!/usr/bin/env bash
# Makes an environment with another version of SGLang on its real wheel and without Megatron, as an engine's machine has it,
# with this project's wheel in it; prints its interpreter.
#   scripts/sglang_version.sh 0.5.16 [FOLDER]
# What differs (requirements/sglang-VERSION.txt, about 600 MB) is installed there; the rest are links to .venv's packages.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?"give a version: $(ls requirements | sed -n 's/^sglang-\(.*\)\.txt$/\1/p' | tr '\n' ' ')"}
wanted=requirements/sglang-$version.txt
if [ ! -f "$wanted" ]; then echo "sglang_version: there is no $wanted" >&2; exit 2; fi
folder=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/megatron-bridge-plugins/sglang-$version}
python=$folder/bin/python
pip() { "$python" -m pip --disable-pip-version-check --quiet "$@" >&2; }

stamp=$folder/.complete
# The folder belongs to this checkout: it points to its .venv.
key=$({ pwd; cat "$wanted" scripts/sglang_version.sh scripts/link_packages.py requirements/stacks.txt; } | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$key" ]; then
    rm -rf "$folder"
    .venv/bin/python -m venv "$folder" >&2
    pip install --no-deps -r "$wanted"
    .venv/bin/python scripts/link_packages.py "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
        megatron omegaconf pip
    echo "$key" > "$stamp"
fi
# The wheel is made anew each time: the sources may have changed.
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
.venv/bin/python -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation --wheel-dir "$wheels" . >&2
pip install --no-deps --force-reinstall "$wheels"/*.whl
echo "$python"

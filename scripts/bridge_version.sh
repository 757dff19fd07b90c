#!/usr/bin/env bash
# Makes an environment with another version of Megatron Bridge on its real wheel, and prints its interpreter.
#   scripts/bridge_version.sh 0.4.2 [FOLDER]
# What differs (requirements/bridge-VERSION.txt, 50 to 170 MB) is installed there; torch and the rest are .venv's.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?"give a version: $(ls requirements | sed -n 's/^bridge-\(.*\)\.txt$/\1/p' | tr '\n' ' ')"}
wanted=requirements/bridge-$version.txt
if [ ! -f "$wanted" ]; then echo "bridge_version: there is no $wanted" >&2; exit 2; fi
folder=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/megatron-bridge-plugins/bridge-$version}

stamp=$folder/.complete
# The folder belongs to this checkout: it points to its .venv and to its sources.
key=$({ pwd; cat "$wanted" pyproject.toml scripts/bridge_version.sh requirements/stacks.txt; } | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$key" ]; then
    rm -rf "$folder"
    .venv/bin/python -m venv "$folder" >&2
    python=$folder/bin/python
    pip() { "$python" -m pip --disable-pip-version-check --quiet "$@" >&2; }
    pip install --no-deps -r "$wanted"
    # Its own packages come first on the path, those of .venv after them.
    .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$python" -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_shared.pth"
    pip install --no-deps --no-build-isolation --editable .
    echo "$key" > "$stamp"
fi
echo "$folder/bin/python"

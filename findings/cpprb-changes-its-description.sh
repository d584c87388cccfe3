#!/bin/sh
# cpprb 11.0.0 (Python 3.8 to 3.12), numpy 2.4.6.
#
# A buffer writes a key `add_shape`, a NumPy array, into each dictionary of the env_dict that describes its
# arrays.  So the description cannot be written as JSON afterwards, differs from an equal one that made no
# buffer, and may not be read-only.
#
# It matters for descriptions that are part of a configuration: saved beside the results, compared, or given
# to another library's buffer that checks its keys.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile cpprb==11.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import json
from types import MappingProxyType

from cpprb import ReplayBuffer

described = {"obs": {"shape": 3}, "act": {}}
before = json.dumps(described)
ReplayBuffer(10, described)
print(f"{before} has become {described}")
assert {key: value["add_shape"].tolist() for key, value in described.items()} == {
    "obs": [-1, 3], "act": [-1, 1]
}
seen = []
for use in (json.dumps, lambda of: ReplayBuffer(10, {"obs": MappingProxyType({"shape": 3})})):
    try:
        use(described)
    except TypeError as error:
        seen.append(str(error))
print(*seen, sep="\n")
assert len(seen) == 2
END

#!/bin/sh
# safetensors 0.8.0.
#
# save_file(tensors, "policy.safetensors") does not write to the path that it is given.  It writes a
# hidden file with a random name in the same folder, and renames it at the end.  The call takes no
# option for that name.  If the process is killed meanwhile, the hidden file stays, as large as what
# was written, and nothing in its name says whose it is.
#
# It matters to trainings that are killed and continued: each kill during a checkpoint can leave a file,
# and a program that clears up its own temporary files by name misses it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile safetensors==0.8.0 numpy==2.4.6
cd "$work"
mkdir checkpoints
cat > save.py <<'END'
import numpy as np
from safetensors.numpy import save_file

weights = {"weights": np.ones(200_000_000, dtype=np.float32)}
while True:
    save_file(weights, "checkpoints/policy.safetensors")
END
cat > watch.py <<'END'
import os
import subprocess
import sys
import time

child = subprocess.Popen([sys.executable, "save.py"])
end = time.monotonic() + 120
found = []
while not found and time.monotonic() < end:
    found = [name for name in os.listdir("checkpoints") if name != "policy.safetensors"]
child.kill()
child.wait()
left = [name for name in os.listdir("checkpoints") if name != "policy.safetensors"]
assert left, "nothing was left"
for name in left:
    print(f"asked for: policy.safetensors; left by the killed process: a hidden file, {name[:4]}...")
assert all(name.startswith(".") and "policy" not in name for name in left)
END
"$work/venv/bin/python" watch.py

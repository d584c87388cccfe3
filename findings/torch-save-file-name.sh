#!/bin/sh
# torch 2.13.0, safetensors 0.8.0.
#
# torch.save writes the file's own name into the file: the same tensors saved as a.pt and as b.pt differ in
# their bytes, and as policy.pt and run_0000.pt in their size, too.  Renaming does not change what is
# inside.  safetensors' files do not know their names.
#
# It matters to pipelines that compare checksums: whoever writes to a temporary name and renames, so that a
# killed process leaves no half file, gets another checksum each time.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 numpy==2.4.6 safetensors==0.8.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import hashlib
import io
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

policy = {"weight": torch.arange(4.0)}


def digest(data):
    return hashlib.sha256(data).hexdigest()[:12]


def saved(name, save=torch.save):
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    save(policy, path)
    return path.read_bytes()


names = ("a.pt", "b.pt", "other_folder/a.pt", "a_longer_name.pt")
files = {name: saved(name) for name in names}
for name, data in files.items():
    print(f"torch.save, {name:16} {len(data)} bytes, SHA-256 {digest(data)}...")
assert files["a.pt"] != files["b.pt"]
assert files["a.pt"] == files["other_folder/a.pt"]
assert len(files["a.pt"]) != len(files["a_longer_name.pt"])

whole = set()
for _ in range(3):  # as writers do that replace a file at once
    with tempfile.NamedTemporaryFile(dir=".", suffix=".pt", delete=False) as file:
        torch.save(policy, file.name)
    whole.add(Path(file.name).rename("policy.pt").read_bytes())
print(f"written three times under a temporary name, then renamed to policy.pt: {len(whole)} different files")
assert len(whole) == 3

streams = [io.BytesIO(), io.BytesIO()]
for stream in streams:
    torch.save(policy, stream)
assert streams[0].getvalue() == streams[1].getvalue()
assert saved("a.safetensors", save_file) == saved("b.safetensors", save_file)
print("torch.save into memory, and safetensors under two names: equal")
END

#!/bin/sh
# numpy 2.4.6 (its OpenBLAS 0.3.31), on a processor with AVX-512.
#
# A float32 product of 256 x 64 by 64 x 64 takes about 1.3 times as long as one of 240 x 64 by 64 x 64, which is
# 1.07 times the work: the kernels for AVX-512 multiply small matrices without packing them first, up to
# rows x columns x depth = 1,000,000, and 256 x 64 x 64 is 1,048,576.  The kernels for AVX2 have no such step.
#
# It matters to small networks, where a batch of 256 with layers of 64 is the commonest choice: its halves
# are below the step.  It matters to benchmarks, too, because OPENBLAS_CORETYPE chooses the kernels in silence.
set -eu
grep -q avx512 /proc/cpuinfo || { echo "this processor has no AVX-512, so there is nothing to see" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile numpy==2.4.6 threadpoolctl==3.6.0
cd "$work"
cat > time_products.py <<'END'
import time

import numpy as np
from threadpoolctl import threadpool_info

rng, seconds = np.random.default_rng(0), {}
weight = rng.normal(size=(64, 64)).astype(np.float32)
batches = {rows: rng.normal(size=(rows, 64)).astype(np.float32) for rows in (240, 256)}
for _ in range(40):  # in turns, so that both meet the same machine
    for rows, batch in batches.items():
        out = np.empty((rows, 64), np.float32)
        start = time.process_time()
        for _ in range(2000):
            np.matmul(batch, weight, out=out)
        seconds.setdefault(rows, []).append((time.process_time() - start) / 2000)
few, many = min(seconds[240]), min(seconds[256])
(blas,) = threadpool_info()
print(
    f"{blas['internal_api']} {blas['version']}, {blas['architecture']}: 240 rows {few * 1e6:.1f} us, "
    f"256 rows {many * 1e6:.1f} us, {many / few:.2f} times as long"
)
assert many / few > 1.15 if blas["architecture"] == "SkylakeX" else many / few < 1.15
END
for kernels in SkylakeX Haswell; do
    OPENBLAS_CORETYPE=$kernels OPENBLAS_NUM_THREADS=1 "$work/venv/bin/python" time_products.py
done

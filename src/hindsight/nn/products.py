"""Which library multiplies a layer's matrices.

MKL does, which is in PyTorch's CPU build and multiplies those of all runs at once.  But on an AMD
core with AVX-512 it uses half of the core's width, and oneDNN, in the same build, all of it: 64 x
512 by 512 x 512 takes 203 us instead of 383.  A product of oneDNN's costs 10 us more to begin and
is of one run, so it pays for large layers only (bench/kernels.py): 64 x 256 by 256 x 256 takes 62
instead of 95 us, 64 x 128 by 128 x 128 26 each, 64 x 64 by 64 x 64 18 instead of 9.  The choice
follows from the processor and the shape alone: on one machine a training always takes the same.
"""

from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from hindsight.processor import hides_width, is_full_width

#: Numbers of a layer's weight, and samples of a batch, from which on oneDNN is quicker.
LARGE_WEIGHT, LARGE_BATCH = 2**15, 32


@cache
def onednn_is_quicker() -> bool:
    """Whether this core and this build of PyTorch multiply large matrices faster by oneDNN."""
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return there and hides_width() and not is_full_width()


def is_for_onednn(x: Tensor, n_weights: int) -> bool:
    """Whether a product of a batch x [run, batch, n] and so many weights is oneDNN's."""
    return (
        n_weights >= LARGE_WEIGHT
        and x.shape[1] >= LARGE_BATCH
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and onednn_is_quicker()
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b by oneDNN, [run, n, out], for x [run, n, in], W [run, out, in], b [run, out]."""
    multiply = torch.ops.mkldnn._linear_pointwise
    runs = [
        multiply(x[r], weight[r], None if bias is None else bias[r], "none", [], "")
        for r in range(len(x))
    ]
    return runs[0][None] if len(runs) == 1 else torch.stack(runs)


def products_of(device: torch.device, hidden: tuple[int, ...]) -> list[str]:
    """The libraries that multiply in a training with networks of these widths on this device."""
    if device.type != "cpu":
        return ["cublas"]
    if not torch.backends.mkl.is_available():
        return ["blas"]
    large = any(a * b >= LARGE_WEIGHT for a, b in pairwise(hidden))
    also = ["onednn"] if large and onednn_is_quicker() else []
    return ["mkl-full-width" if is_full_width() else "mkl", *also]

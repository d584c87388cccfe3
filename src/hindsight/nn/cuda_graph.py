"""CUDA graphs: a GPU repeats the kernels of a function without Python launching each of them."""

from collections.abc import Callable

import torch
from torch import Tensor


class Repeated:
    """A function of tensors, for many calls with arguments of the same shapes.

    On a GPU, its second call records the function's kernels as a CUDA graph, which this and later
    calls replay; launching a small network's kernels takes longer than running them.  The function
    must not read numbers on the host, and what it changes in place must remain the same tensors.
    The tensors that a call returns are overwritten by the next one.  On a CPU, calls are passed on.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self._calls = 0

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """The function's results for these arguments, of which there is at least one."""
        self._calls += 1
        # The first call initialises libraries, which must not happen in a recording.
        if arguments[0].device.type != "cuda" or self._calls == 1:
            return self.function(*arguments)
        if self._calls == 2:
            self._arguments = [x.clone() for x in arguments]
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._results = self.function(*self._arguments)
        for here, given in zip(self._arguments, arguments, strict=True):
            here.copy_(given)
        self._graph.replay()
        return self._results

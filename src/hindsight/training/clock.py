"""Each run's share of the training time."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from hindsight.nn.numba_cache import seconds_compiling


class Clock:
    """Seconds of wall and CPU time of each run, [run] float64, without compilation.

    Time that runs spend together is split equally among them.
    """

    def __init__(
        self, runs: int, device: torch.device, elsewhere: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`elsewhere` returns the CPU seconds of other processes that work for the runs."""
        self._elsewhere = elsewhere
        self.wall, self.cpu = torch.zeros(2, runs, dtype=torch.float64)
        self._device = device
        self.start()

    def start(self) -> None:
        self._marks = self._now()

    def _now(self) -> tuple[float, float]:
        wall, cpu = seconds_compiling()
        return time.perf_counter() - wall, time.process_time() - cpu + self._elsewhere()

    def lap(self, runs: Tensor) -> None:
        """Attribute the time since `start` or the last lap to the runs with these indices."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._now()
        runs = runs.cpu()
        self.wall[runs] += (now[0] - self._marks[0]) / len(runs)
        self.cpu[runs] += (now[1] - self._marks[1]) / len(runs)
        self._marks = now

    def select(self, runs: Tensor) -> None:
        self.wall, self.cpu = self.wall[runs.cpu()], self.cpu[runs.cpu()]

    def state_dict(self) -> dict[str, Tensor]:
        return {"wall": self.wall, "cpu": self.cpu}

    def load_state_dict(self, saved: dict) -> None:
        self.wall, self.cpu = saved["wall"], saved["cpu"]

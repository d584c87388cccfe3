"""Statistics of each run's last hundred episodes, which the papers call the return at a step."""

from collections import deque

import numpy as np
import torch

WINDOW = 100
#: Tensors with a run axis.
OF_RUNS = ("finished", "so_far", "reached")


class RecentEpisodes:
    """Return, success and length of each run's last `WINDOW` episodes."""

    def __init__(self, runs: int, envs: int, any_success: bool = False) -> None:
        self.episodes: list[deque[tuple[float, float, float]]] = [
            deque(maxlen=WINDOW) for _ in range(runs)
        ]
        self.finished = torch.zeros(runs, dtype=torch.int64)
        # Return and length of the open episodes, [run, env, 2].
        self.so_far = torch.zeros(runs, envs, 2, dtype=torch.float64)
        # Whether a step of the open episode has succeeded, [run, env].
        self.any_success, self.reached = any_success, torch.zeros(runs, envs, dtype=torch.bool)

    def add(self, rewards: torch.Tensor, ended: torch.Tensor, success: torch.Tensor) -> None:
        """Add the episodes that end in these steps, [run, env, step]; the last two are bool."""
        ended, success = ended.cpu(), success.cpu()
        if self.any_success:
            success = success.clone()
            for t in range(success.shape[2]):
                success[:, :, t] |= self.reached
                self.reached = success[:, :, t] & ~ended[:, :, t]
        steps = torch.ones(rewards.shape, dtype=torch.float64)
        sums = torch.stack([rewards.double().cpu(), steps], dim=-1).cumsum(2)
        totals = (self.so_far[:, :, None] + sums).numpy()
        caught = success.numpy()
        # Of episodes that end in the same step, that of the first environment comes first.
        begun = np.zeros_like(totals[:, :, 0])
        for run, t, env in ended.transpose(1, 2).nonzero().tolist():
            total, length = (totals[run, env, t] - begun[run, env]).tolist()
            self.episodes[run].append((total, float(caught[run, env, t]), length))
            begun[run, env] = totals[run, env, t]
        self.so_far = torch.from_numpy(totals[:, :, -1] - begun)
        self.finished += ended.sum((1, 2))

    def abandon(self, episodes: torch.Tensor) -> None:
        """Forget the open episodes of these environments, [run, env] bool."""
        self.so_far[episodes.cpu()], self.reached[episodes.cpu()] = 0.0, False

    def means(self, latest: torch.Tensor | None = None) -> torch.Tensor:
        """Return mean return, success rate and length, [3, run]; NaN for a run without episodes.

        `latest` [run] limits the mean to each run's latest episodes; None: all that are kept.
        """
        counts = [WINDOW] * len(self.episodes) if latest is None else latest.tolist()
        kept = [list(e)[-n:] if n else [] for e, n in zip(self.episodes, counts, strict=True)]
        found = [torch.tensor(e or [[torch.nan] * 3]).double().mean(0) for e in kept]
        return torch.stack(found, dim=1)

    def select(self, runs: torch.Tensor) -> None:
        self.episodes = [self.episodes[i] for i in runs.tolist()]
        for name in OF_RUNS:
            setattr(self, name, getattr(self, name)[runs.cpu()])

    def state_dict(self) -> dict[str, object]:
        episodes = [list(e) for e in self.episodes]
        return {"episodes": episodes, **{name: getattr(self, name) for name in OF_RUNS}}

    def load_state_dict(self, saved: dict) -> None:
        if any(len(episode) != 3 for run in saved["episodes"] for episode in run):
            raise ValueError("an episode has other numbers than return, success and length")
        self.episodes = [deque(map(tuple, run), maxlen=WINDOW) for run in saved["episodes"]]
        for name in OF_RUNS:
            setattr(self, name, saved[name])

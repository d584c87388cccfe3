"""Statistics of each run's last hundred episodes, which the papers call the return at a step."""

from collections import deque

import numpy as np
import torch

WINDOW = 100
#: Tensors with a run axis.
OF_RUNS = ("finished", "return_so_far", "length_so_far")


class RecentEpisodes:
    """Return, success and length of each run's last `WINDOW` episodes."""

    def __init__(self, runs: int, envs: int) -> None:
        self.episodes: list[deque[tuple[float, float, float]]] = [
            deque(maxlen=WINDOW) for _ in range(runs)
        ]
        self.finished = torch.zeros(runs, dtype=torch.int64)
        # Of the open episodes, [run, env].
        self.return_so_far = torch.zeros(runs, envs, dtype=torch.float64)
        self.length_so_far = torch.zeros(runs, envs, dtype=torch.int64)

    def add(self, rewards: torch.Tensor, ended: torch.Tensor, success: torch.Tensor) -> None:
        """Add the episodes that end in these steps [run, env, step].

        `ended` and `success` are bool; an episode succeeds if its last step does.
        """
        steps = torch.arange(1, rewards.shape[-1] + 1)
        totals = (self.return_so_far[..., None] + rewards.double().cpu().cumsum(-1)).numpy()
        lengths = (self.length_so_far[..., None] + steps).numpy()
        ended, caught = ended.cpu(), success.cpu().numpy()
        # Of episodes that end in the same step, that of the first environment comes first.
        begun = np.zeros((2, *ended.shape[:2]))
        for run, t, env in ended.transpose(1, 2).nonzero().tolist():
            at, (total, length) = (run, env, t), begun[:, run, env]
            episode = (totals[at] - total, caught[at], lengths[at] - length)
            self.episodes[run].append(tuple(map(float, episode)))
            begun[:, run, env] = totals[at], lengths[at]
        self.return_so_far = torch.from_numpy(totals[..., -1] - begun[0])
        self.length_so_far = torch.from_numpy(lengths[..., -1] - begun[1].astype(np.int64))
        self.finished += ended.sum((1, 2))

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
        self.episodes = [deque(e, maxlen=WINDOW) for e in saved["episodes"]]
        for name in OF_RUNS:
            setattr(self, name, saved[name])

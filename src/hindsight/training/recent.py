"""The last hundred episodes of each run: what the papers call the return at a step."""

from collections import deque

import torch

WINDOW = 100


class RecentEpisodes:
    """Return, success and length of each run's last `WINDOW` episodes."""

    def __init__(self, runs: int, envs: int) -> None:
        self.episodes: list[deque[tuple[float, float, float]]] = [
            deque(maxlen=WINDOW) for _ in range(runs)
        ]
        self.finished = torch.zeros(runs, dtype=torch.int64)
        # Of the episodes that are under way, [run, env].
        self.return_so_far = torch.zeros(runs, envs, dtype=torch.float64)
        self.length_so_far = torch.zeros(runs, envs, dtype=torch.int64)

    def add(self, rewards: torch.Tensor, ended: torch.Tensor, success: torch.Tensor) -> None:
        """Take in the episodes that end in these steps [run, env, step], in that order.

        ended, success: bool; an episode succeeds if its last step does.
        """
        rewards = rewards.double().cpu()
        total = self.return_so_far[..., None] + rewards.cumsum(-1)
        steps = rewards.shape[-1]
        length = self.length_so_far[..., None] + torch.arange(1, steps + 1)
        ended, success = ended.cpu(), success.cpu()
        for run, episodes in enumerate(self.episodes):
            found: list[tuple[int, tuple[float, float, float]]] = []
            for env in range(ended.shape[1]):
                at = ended[run, env].nonzero()[:, 0]
                returns = torch.diff(total[run, env, at], prepend=torch.zeros(1).double())
                lengths = torch.diff(length[run, env, at], prepend=torch.zeros(1).long())
                caught = success[run, env, at].double()
                columns = (returns.tolist(), caught.tolist(), lengths.double().tolist())
                found += zip(at.tolist(), zip(*columns, strict=True), strict=True)
                self.return_so_far[run, env] = total[run, env, -1]
                self.length_so_far[run, env] = length[run, env, -1]
                if len(at):
                    self.return_so_far[run, env] -= total[run, env, at[-1]]
                    self.length_so_far[run, env] -= length[run, env, at[-1]]
            # Stable: of episodes that end in the same step, the first environment's comes first.
            episodes.extend(episode for _, episode in sorted(found, key=lambda pair: pair[0]))
        self.finished += ended.sum((1, 2))

    def means(self, latest: torch.Tensor | None = None) -> torch.Tensor:
        """Mean return, success rate and length, [3, run]; NaN where there is no episode.

        Of each run's `latest` [run] episodes, if that is given and less than all that are kept.
        """
        nan = (float("nan"),) * 3
        counts = [WINDOW] * len(self.episodes) if latest is None else latest.tolist()
        kept = [list(e)[-n:] if n else [] for e, n in zip(self.episodes, counts, strict=True)]
        return torch.stack([torch.tensor(e or [nan]).double().mean(0) for e in kept], dim=1)

    def select(self, runs: torch.Tensor) -> None:
        """Keep the runs with these indices."""
        self.episodes = [self.episodes[i] for i in runs.tolist()]
        for name in ("finished", "return_so_far", "length_so_far"):
            setattr(self, name, getattr(self, name)[runs])

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps."""
        return {
            "episodes": [list(e) for e in self.episodes],
            "finished": self.finished,
            "return_so_far": self.return_so_far,
            "length_so_far": self.length_so_far,
        }

    def load_state_dict(self, saved: dict) -> None:
        """Continue where `state_dict` was taken."""
        self.episodes = [deque(e, maxlen=WINDOW) for e in saved["episodes"]]
        self.finished = saved["finished"]
        self.return_so_far = saved["return_so_far"]
        self.length_so_far = saved["length_so_far"]

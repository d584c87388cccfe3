"""How often a pursuer that goes straight at the prey catches it: what a box leaves to be learned.

    python bench/pursuer.py

Per axis the predator moves at most 1 in a step, and has 21 steps. So in a large box some prey is
out of reach for anybody. Of prey that rests this pursuer catches all that can be caught; of prey
that moves it is a yardstick, no limit.
"""

import pandas as pd
import torch

from hindsight.envs.predator_prey import PredatorPrey
from hindsight.specs.environments.predator_prey import PREYS, SPAWNS, PredatorPreySpec

SIZES = (10, 20, 30, 40, 50)


def caught(spec: PredatorPreySpec, seed: int = 0, episodes: int = 2000) -> float:
    """Share of caught prey of a seed's first episodes."""
    env = PredatorPrey(spec, [seed], n_envs=episodes)
    steps, n = spec.max_steps + 1, spec.n_dims
    env.prepare_rollout(1, steps)
    ended = torch.zeros(1, episodes, dtype=torch.bool)
    found = torch.zeros_like(ended)
    for _ in range(steps):
        predator, prey = env.state[..., :n], env.state[..., n : 2 * n]
        step = env.step((prey - predator).clamp(-1, 1))
        found |= step.success & ~ended
        ended |= step.terminated
    return float(found.double().mean())


def main() -> None:
    shares = pd.DataFrame(index=[f"G = {size}" for size in SIZES])
    for start in SPAWNS:
        for prey in PREYS:
            made = [PredatorPreySpec(spawn=start, prey=prey, grid_size=size) for size in SIZES]
            shares[f"{start} {prey}"] = [caught(spec, seed) for seed, spec in enumerate(made)]
    shares["mean"] = shares.mean(axis=1)
    print(shares.T.round(2).to_string())


if __name__ == "__main__":
    main()

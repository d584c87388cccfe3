"""Training beside Stable-Baselines3, SBX and rejax: steps of a run per second of one core.

    python bench/training.py                  # PPO, SAC and TD3, the DDPG notebook, DQN on bits
    python bench/training.py sac --repeats 2
    pip install rejax==0.1.3 sbx-rl==0.28.0   # for the rows of those two

PPO: rollouts of 2048 steps, 10 epochs of 32 minibatches.  SAC and TD3: an update a step, networks
of 2 x 64, batches of 256, with hindsight (two goals a transition); SBX also with 21 updates every
21 steps, its best setting.  The notebook: DDPG with hindsight, 50 updates after each of its 150
episodes of PointReach, of which a turn is one.  DQN flips 15 bits.  rejax trains on predator-prey
written in JAX, with a prey that rests and with its seeds under `vmap`.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
from gymnasium.wrappers import FlattenObservation
from harness import Turn, race, timed
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.noise import NormalActionNoise

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.specs.cell import CellSpec
from hindsight.training.runs import runs_of

ROLLOUT, SAC_STEPS, EPISODE = 2048, 500, 50
SMALL, LARGE = (64, 64), (512, 512, 512)


def ours(runs: int, iterations: int = 1, **spec: Any) -> Turn:
    """So many runs of ours; a turn is so many iterations."""
    training = runs_of(CellSpec(**spec, seeds=runs, early_end=None), list(range(runs)), "cpu")

    def turn() -> int:
        before = training.env_steps
        for _ in range(iterations):
            training.iterate()
        return runs * (training.env_steps - before)

    return turn


def ppo(runs: int, hidden: tuple[int, ...], iterations: int, her: bool = False) -> Turn:
    """Ours, with hindsight as the authors' code has it, or without."""
    hindsight = {"strategy": "final"} if her else None
    return ours(
        runs, iterations, algorithm={"hidden": hidden}, hindsight=hindsight, steps=10_000_000
    )


def off_policy(name: str, runs: int) -> Turn:
    how = {"name": name, "log_interval": SAC_STEPS}
    return ours(runs, algorithm=how, replay={"strategy": "final", "k": 2}, steps=200_000)


def bits(runs: int) -> Turn:
    how = {"name": "dqn", "log_interval": SAC_STEPS}
    where = {"id": "BitFlipping-v0", "n_bits": 15}
    replay = {"strategy": "future", "k": 4}
    return ours(runs, environment=where, algorithm=how, replay=replay, steps=200_000)


def notebook() -> Turn:
    how = {"name": "ddpg", "log_interval": EPISODE, "learning_starts": EPISODE}
    replay = {"strategy": "future", "time_limit_terminates": True}
    where = {"id": "PointReach-v0"}
    return ours(1, environment=where, algorithm=how, replay=replay, steps=150 * EPISODE)


class PerStepHindsight(sb3.PPO):
    """Stable-Baselines3's PPO with `final` copies as the authors make them: one step at a time,
    with a forward pass of batch size one.
    """

    def train(self) -> None:
        buffer, n = self.rollout_buffer, self.observation_space.shape[0] // 3
        obs, actions = buffer.observations[:, 0], buffer.actions[:, 0]
        starts = buffer.episode_starts[:, 0]
        copies = RolloutBuffer(
            len(obs), self.observation_space, self.action_space, self.device, gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )  # fmt: skip
        bounds = sorted({0, *np.flatnonzero(starts), len(obs)})
        for first, last in itertools.pairwise(bounds):
            for t in range(first, last):
                new = obs[t].copy()
                new[n : 2 * n] = obs[last - 1, :n]
                with torch.no_grad():
                    batch = torch.as_tensor(new[None]), torch.as_tensor(actions[t][None])
                    value, log_prob, _ = self.policy.evaluate_actions(*batch)
                reward = float(np.linalg.norm(new[:n] - new[n : 2 * n]) <= 1)
                begins = np.array([t == first])
                copies.add(new[None], actions[t][None], np.array([reward]), begins, value, log_prob)
        copies.compute_returns_and_advantage(value.flatten(), np.array([True]))
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            both = np.concatenate([getattr(buffer, name), getattr(copies, name)])
            setattr(buffer, name, both)
        buffer.buffer_size = len(both)
        super().train()
        buffer.buffer_size = len(obs)
        buffer.reset()


def sb3_ppo(hidden: tuple[int, ...], rollouts: int, kind: type[sb3.PPO] = sb3.PPO) -> Turn:
    """Stable-Baselines3 with its defaults, one environment, through the gymnasium wrapper."""
    model = kind(
        "MlpPolicy", FlattenObservation(gym.make("PredatorPrey-v0")), clip_range_vf=0.2,
        target_kl=0.05, policy_kwargs={"net_arch": list(hidden)}, seed=0, device="cpu",
    )  # fmt: skip
    steps = rollouts * ROLLOUT
    return timed(partial(model.learn, steps, reset_num_timesteps=False), 1, steps)


def sb3_off_policy(
    kind: Any, env: str, steps: int, hidden: int, her: tuple[str, int],
    where: Sequence[tuple[str, Any]] = (), **more: Any,
) -> Turn:  # fmt: skip
    buffer = {"goal_selection_strategy": her[0], "n_sampled_goal": her[1]}
    model = kind(
        "MultiInputPolicy", gym.make(env, **dict(where)), replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs=buffer, policy_kwargs={"net_arch": [hidden] * 2}, seed=0,
        device="cpu", **more,
    )  # fmt: skip
    return timed(partial(model.learn, steps, reset_num_timesteps=False), 1, steps)


def in_sbx(kind: str, together: int = 1) -> Turn:
    """SBX's SAC or TD3, with Stable-Baselines3's buffer; `together` updates every so many steps."""
    import sbx

    return sb3_off_policy(
        getattr(sbx, kind), "PredatorPrey-v0", 504, 64, ("final", 2), gamma=0.95, tau=0.05,
        train_freq=together, gradient_steps=together,
    )  # fmt: skip


def sb3_notebook() -> Turn:
    """Stable-Baselines3 in the notebook's setting; it bootstraps at the limit and does not clip."""
    return sb3_off_policy(
        sb3.DDPG, "PointReach-v0", EPISODE, 256, ("future", 4), gamma=0.98, batch_size=256,
        buffer_size=100_000, learning_starts=EPISODE, train_freq=EPISODE, gradient_steps=EPISODE,
        action_noise=NormalActionNoise(np.zeros(2), np.full(2, 0.2)),
    )  # fmt: skip


def chase() -> Any:
    """Predator-prey with a prey that rests, as a gymnax environment."""
    import jax
    import jax.numpy as jnp
    from gymnax.environments import environment, spaces

    class Chase(environment.Environment):  # type: ignore[misc]
        """Predator-prey in three dimensions, half-width 10, a distance of 1, 21 steps."""

        @property
        def default_params(self) -> environment.EnvParams:
            return environment.EnvParams(max_steps_in_episode=21)

        def reset_env(self, key: Any, params: Any) -> Any:
            places = jax.random.uniform(key, (6,), minval=-10.0, maxval=10.0)
            state = (places, jnp.zeros((), jnp.int32))
            return self.get_obs(state), state

        def step(self, key: Any, state: Any, action: Any, params: Any = None) -> Any:
            # What rejax 0.1.3 asks for: five things, an episode that is over begun anew.
            places, t = state
            predator = jnp.clip(places[:3] + jnp.clip(action, -1, 1), -10, 10)
            caught = jnp.linalg.norm(predator - places[3:]) <= 1
            late = t + 1 > 20
            reward, over = jnp.where(caught, 1.0, jnp.where(late, -1.0, 0.0)), caught | late
            after = (jnp.concatenate([predator, places[3:]]), t + 1)
            _, begun = self.reset_env(key, params)
            after = jax.tree.map(lambda a, b: jnp.where(over, a, b), begun, after)
            return self.get_obs(after), after, reward, over, {}

        def get_obs(self, state: Any, params: Any = None, key: Any = None) -> Any:
            return jnp.concatenate([state[0], jnp.zeros(3)])

        def action_space(self, params: Any = None) -> Any:
            return spaces.Box(-1.0, 1.0, (3,))

        def observation_space(self, params: Any = None) -> Any:
            return spaces.Box(-10.0, 10.0, (9,))

    return Chase()


def in_jax(kind: str, runs: int, hidden: tuple[int, ...], iterations: int, **keys: Any) -> Turn:
    """So many seeds of one of rejax's algorithms under `vmap`, all compiled."""
    import jax
    import rejax

    env, steps = chase(), keys.get("num_steps", 1)
    network = {"hidden_layer_sizes": hidden} | ({"activation": "tanh"} if kind == "PPO" else {})
    algorithm = getattr(rejax, kind).create(
        env=env, env_params=env.default_params, num_envs=1, learning_rate=3e-4,
        agent_kwargs=network, **keys,
    )  # fmt: skip

    def several(state: Any) -> Any:
        return jax.lax.fori_loop(0, iterations, lambda _, s: algorithm.train_iteration(s), state)

    seed = jax.random.PRNGKey(0)
    if runs == 1:  # under vmap each step of SAC would copy the buffer
        state, iterate = jax.jit(algorithm.init_state)(seed), jax.jit(several, donate_argnums=0)
    else:
        state = jax.jit(jax.vmap(algorithm.init_state))(jax.random.split(seed, runs))
        iterate = jax.jit(jax.vmap(several), donate_argnums=0)

    def turn() -> int:
        nonlocal state
        state = jax.block_until_ready(iterate(state))
        return iterations * steps * runs

    return turn


JAX_PPO = {
    "num_steps": ROLLOUT, "num_epochs": 10, "num_minibatches": 32, "gamma": 0.99,
    "gae_lambda": 0.95, "clip_eps": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5,
    "total_timesteps": ROLLOUT,
}  # fmt: skip
SB3, REJAX, SBX = "Stable-Baselines3", "rejax", "SBX"
PER_STEP = "per-step hindsight on Stable-Baselines3"
#: Runs of 2 x 64, and in how many rollouts they take long enough to be timed.
ROLLOUTS = {1: 20, 4: 6, 16: 3, 64: 1}
Table = tuple[dict[str, Callable[[], Turn]], list[tuple[str, str, float | None]]]
#: What is compared: contenders, and the ratios that are asked of ours.
TABLES: dict[str, Table] = {
    "ppo": (
        {
            f"{SB3} 2x64": partial(sb3_ppo, SMALL, 2),
            f"{PER_STEP} 2x64": partial(sb3_ppo, SMALL, 2, PerStepHindsight),
            **{f"PPO 2x64, {n}": partial(ppo, n, SMALL, m) for n, m in ROLLOUTS.items()},
            **{f"PPO-HER 2x64, {n}": partial(ppo, n, SMALL, -(-m // 2), True)
               for n, m in ROLLOUTS.items()},
            **{f"{REJAX} 2x64, {n}": partial(in_jax, "PPO", n, SMALL, m, **JAX_PPO)
               for n, m in ROLLOUTS.items()},
            f"{SB3} 3x512": partial(sb3_ppo, LARGE, 1),
            f"{PER_STEP} 3x512": partial(sb3_ppo, LARGE, 1, PerStepHindsight),
            "PPO 3x512": partial(ppo, 1, LARGE, 1),
            "PPO-HER 3x512": partial(ppo, 1, LARGE, 1, True),
            f"{REJAX} 3x512": partial(in_jax, "PPO", 1, LARGE, 1, **JAX_PPO),
        },
        [
            *((f"PPO 2x64, {n}", f"{REJAX} 2x64, {n}", 1.3) for n in ROLLOUTS),
            *((f"PPO 2x64, {n}", f"{SB3} 2x64", 60.0) for n in ROLLOUTS),
            *((f"PPO-HER 2x64, {n}", f"{PER_STEP} 2x64", 45.0) for n in ROLLOUTS),
            ("PPO 3x512", f"{REJAX} 3x512", 1.0),
            ("PPO-HER 3x512", f"{PER_STEP} 3x512", 2.0),
        ],
    ),
    "sac": (
        {
            SB3: partial(sb3_off_policy, sb3.SAC, "PredatorPrey-v0", SAC_STEPS, 64, ("final", 2),
                         gamma=0.95, tau=0.05),
            **{f"{name.upper()}-HER, {n}": partial(off_policy, name, n)
               for name in ("sac", "td3") for n in (1, 8, 16)},
            **{f"{SBX} {kind}, {n} at a time": partial(in_sbx, kind, n)
               for kind in ("SAC", "TD3") for n in (1, 21)},
        },
        [
            *((f"SAC-HER, {n}", SB3, None) for n in (1, 8, 16)),
            *((f"{kind}-HER, 1", f"{SBX} {kind}, {n} at a time", bar)
              for kind in ("SAC", "TD3") for n, bar in ((1, None), (21, 2.2))),
        ],
    ),
    "notebook": ({"DDPG + HER": notebook, SB3: sb3_notebook}, [("DDPG + HER", SB3, None)]),
    "bits": (
        {
            **{f"DQN-HER, {n}": partial(bits, n) for n in (1, 8)},
            SB3: partial(sb3_off_policy, sb3.DQN, "BitFlipping-v0", SAC_STEPS, 64, ("future", 4),
                         [("n_bits", 15)], train_freq=1, batch_size=256, learning_starts=100),
        },
        [(f"DQN-HER, {n}", SB3, None) for n in (1, 8)],
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", default=list(TABLES), metavar="|".join(TABLES))
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    for which in given.which:
        race(f"{which}, environment steps per second of one core", *TABLES[which], given.repeats)


if __name__ == "__main__":
    main()

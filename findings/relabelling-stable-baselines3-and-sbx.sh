#!/bin/sh
# Stable-Baselines3 2.9.2 and SBX 0.28.0 (jax 0.10.2), gymnasium 1.4.0, torch 2.13.0.
#
# How HerReplayBuffer relabels, in both: the two rows of docs/peers.md.  The surprises: a relabelled
# transition keeps its `done`, even if the environment has `compute_terminated` and the new goal is
# reached; and every batch of 256 has exactly 204 relabelled transitions, all of them last.
#
# It matters wherever success ends an episode (the value after a relabelled success is bootstrapped),
# and for anyone who takes the first rows of a batch as a sample of it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
    stable-baselines3==2.9.2 sbx-rl==0.28.0 jax==0.10.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'END'
import gymnasium
import numpy as np
import sbx
import stable_baselines3
from stable_baselines3 import HerReplayBuffer

LENGTH, BATCH = 10, 256


def box(low, high):
    return gymnasium.spaces.Box(low, high, (1,), np.float32)


class Counting(gymnasium.Env):
    """The state is 100 x episode + step, so that a goal tells where it was achieved."""

    observation_space = gymnasium.spaces.Dict(
        {key: box(-1e6, 1e6) for key in ("achieved_goal", "desired_goal", "observation")}
    )
    action_space = box(-1, 1)
    episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.state = 100 * self.episode
        return self.observation(), {}

    def step(self, action):
        self.state += 1
        return self.observation(), -1.0, False, self.state % 100 == LENGTH, {}

    def observation(self):
        state, goal = (np.array([x], np.float32) for x in (self.state, -1))
        return {"achieved_goal": state, "desired_goal": goal, "observation": state}

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal)[..., 0]

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal)[..., 0] - 1.0


def buffer_of(library, strategy, steps):
    model = library.SAC(
        "MultiInputPolicy",
        Counting(),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": strategy},
        learning_starts=10**6,
        buffer_size=1000,
        seed=0,
    )
    return model.learn(steps).replay_buffer


def sampled(buffer, batches=100):
    """The state before and after the action, goal, reward, done: [batch, 256, 5]."""
    rows = []
    for _ in range(batches):
        s = buffer.sample(BATCH)
        fields = s.observations["achieved_goal"], s.next_observations["achieved_goal"]
        fields += s.observations["desired_goal"], s.rewards, s.dones
        rows.append(np.concatenate([x.cpu().numpy() for x in fields], axis=1))
    return np.stack(rows)


for library in (stable_baselines3, sbx):
    print(library.__name__, library.__version__)
    buffer = buffer_of(library, "future", 205)  # twenty episodes, and half of one
    batches = sampled(buffer)
    before, after, goal, reward, done = np.moveaxis(batches, 2, 0)
    relabelled = goal >= 0
    later = (goal - after)[relabelled]
    print(f"  goal (future): {later.min():.0f} to {later.max():.0f} steps after the next state")
    assert later.min() == 0 and later.max() == LENGTH - 1

    reached = relabelled & (goal == after)
    assert np.array_equal(reward == 0, reached)
    print("  reward: 0 where the next state is the new goal, else -1")
    print(f"  termination: done in {done[reached].sum():.0f} of {reached.sum()} relabelled successes")
    assert not done.any()
    print(f"  unfinished episode: {(before >= 2100).sum()} of {before.size} samples")
    assert not (before >= 2100).any()
    print(f"  share (k = 4): {set(relabelled.sum(1).tolist())} of {BATCH}, first row", end=" ")
    print(set(relabelled.argmax(1).tolist()))
    assert (relabelled == (np.arange(BATCH) >= BATCH - 204)).all()

    goal = sampled(buffer_of(library, "final", 200))[:, :, 2]
    steps = set((goal[goal >= 0] % 100).astype(int).tolist())
    print(f"  final: goals of step {steps} of {LENGTH}")
    assert steps == {LENGTH}

    draws = [(np.random.seed(1), sampled(buffer, 1))[1] for _ in range(2)]
    print(f"  generator: np.random.seed repeats the samples: {np.array_equal(*draws)}")
    assert np.array_equal(*draws)
END

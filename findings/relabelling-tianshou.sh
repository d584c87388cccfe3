#!/bin/sh
# tianshou 2.0.1, numpy 2.4.6, torch 2.13.0.
#
# How HERReplayBuffer relabels: a row of docs/peers.md.  The surprises: of the E episodes in a batch,
# int(E x (1 - 1 / future_k)) are relabelled, so none if there is one episode or if future_k is 1;
# all transitions of an episode in a batch get one goal; and goals and rewards are written into the
# storage, where they stay until the next call of `sample` or `add`.
#
# It matters when k of a paper is typed as `future_k` (k + 1 would be the same share), and when
# anything else reads the buffer's arrays between two updates.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile tianshou==2.0.1 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'END'
from copy import deepcopy

import numpy as np
from tianshou.data import Batch, HERReplayBuffer

LENGTH, BATCH = 10, 256


def reward(achieved, desired):
    return (achieved == desired)[:, 0] - 1.0


def observation(state):
    achieved = np.array([state], np.float32)
    return {"achieved_goal": achieved, "desired_goal": -np.ones(1, np.float32), "observation": achieved}


def filled(steps, future_k=4):
    """The state is 100 x episode + step, so that a goal tells where it was achieved."""
    buffer = HERReplayBuffer(1000, reward, horizon=LENGTH, future_k=future_k)
    for t in range(steps):
        state = 100 * (1 + t // LENGTH) + t % LENGTH
        step = {"obs": observation(state), "act": np.zeros(1), "rew": -1.0, "info": {}}
        ends = {"terminated": False, "truncated": t % LENGTH == LENGTH - 1}
        buffer.add(Batch(**step, **ends, obs_next=observation(state + 1)))
    return buffer


def sampled(buffer, batches=100):
    """The state before and after the action, goal, reward, terminated: [batch, 256, 5]."""
    rows = []
    for _ in range(batches):
        s, _ = buffer.sample(BATCH)
        fields = s.obs.achieved_goal, s.obs_next.achieved_goal, s.obs_next.desired_goal
        fields = *(x[:, 0] for x in fields), s.rew, s.terminated
        rows.append(np.stack(fields, axis=1))
    return np.stack(rows)


print("tianshou 2.0.1")
buffer = filled(205)  # twenty episodes, and half of one
batches = sampled(buffer)
before, after, goal, rewards, terminated = np.moveaxis(batches, 2, 0)
relabelled = goal >= 0
later = (goal - after)[relabelled]
print(f"  goal (future only): {later.min():.0f} to {later.max():.0f} steps after the next state")
assert later.min() == 0 and later.max() == LENGTH - 1

reached = relabelled & (goal == after)
assert np.array_equal(rewards == 0, reached)
print("  reward: 0 where the next state is the new goal, else -1")
print(f"  termination: in {terminated[reached].sum():.0f} of {reached.sum()} relabelled successes")
assert not terminated.any()
unfinished = relabelled & (before >= 2100)
print(f"  unfinished episode: {unfinished.sum()} relabelled samples")
assert unfinished.any()

for batch in batches:
    episode, goal = batch[:, 0] // 100, batch[:, 2]
    changed = np.unique(episode[goal >= 0])
    assert len(changed) == int(len(np.unique(episode)) * (1 - 1 / 4))
    assert all(len(np.unique(goal[episode == e])) == 1 for e in changed)
print(f"  share (future_k = 4): {len(changed)} of {len(np.unique(episode))} episodes, one goal each")
for episodes, future_k in ((1, 4), (20, 1)):
    count = (sampled(filled(episodes * LENGTH, future_k))[:, :, 2] >= 0).sum()
    print(f"    {episodes} in the buffer, future_k = {future_k}: {count} samples relabelled")
    assert count == 0

again = [deepcopy(buffer) for _ in range(2)]
first, second = ((np.random.seed(seed), sampled(b, 1))[1] for seed, b in enumerate(again))
print("  generator: another np.random.seed draws", end=" ")
print("the same transitions and other goals")
assert np.array_equal(first[:, :, 0], second[:, :, 0])
assert not np.array_equal(first[:, :, 2], second[:, :, 2])

stored = buffer.rew[:205]
during = int((stored == 0).sum())
buffer.add(buffer[0])
print(f"  rewards of 0 in the storage: {during} after sample(), {int((stored == 0).sum())} after add()")
assert during > 0 and not (stored == 0).any()
END

#!/bin/sh
# cpprb 11.0.0 (Python 3.8 to 3.12), numpy 2.4.6.
#
# How HindsightReplayBuffer relabels: a row of docs/peers.md.  The surprises: `done` stays as stored,
# so that a transition that ended its episode is an end under every goal; and the goals come from a
# generator that no argument seeds, so that no training repeats (unless `buffer.rng` is replaced).
#
# It matters wherever success ends an episode, and for every experiment that gives a seed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile cpprb==11.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import numpy as np
from cpprb import HindsightReplayBuffer

LENGTH, BATCH = 10, 256


def reward(next_state, action, goal):
    return (next_state == goal)[:, 0] - 1.0


def filled(strategy, steps=200):
    """The state is 100 x episode + step, so that a goal tells where it was achieved.

    Every episode ends in success: its last transition is done under the original goal, -1.
    """
    buffer = HindsightReplayBuffer(
        2000,
        {"obs": {}, "act": {}, "next_obs": {}, "done": {}},
        max_episode_len=LENGTH,
        reward_func=reward,
        strategy=strategy,
        additional_goals=4,
        prioritized=False,
    )
    for t in range(steps):
        state, last = 100 * (1 + t // LENGTH) + t % LENGTH, t % LENGTH == LENGTH - 1
        buffer.add(obs=state, act=0, next_obs=state + 1, done=last)
        if last:
            buffer.on_episode_end(-1)
    return buffer


def columns(rows):
    return (rows[key][:, 0] for key in ("obs", "next_obs", "goal", "rew", "done"))


print("cpprb 11.0.0")
np.random.seed(0)
buffer = filled("future", 205)  # twenty episodes, and half of one
before, after, goal, rewards, done = columns(buffer.get_all_transitions())
relabelled = goal >= 0
later = (goal - after)[relabelled]
print(f"  goal (future): {later.min():.0f} to {later.max():.0f} steps after the next state")
assert later.min() == 0 and later.max() == LENGTH - 1

reached = relabelled & (goal == after)
assert np.array_equal(rewards == 0, reached)
print("  reward: 0 where the next state is the new goal, else -1")
last = after % 100 == LENGTH
ends = int(done[reached & ~last].sum()), int((reached & ~last).sum())
print("  termination: done in {} of {} relabelled successes before an episode's end".format(*ends))
assert np.array_equal(done == 1, last) and ends[0] == 0 < ends[1]
_, after, goal, rewards, done = columns(filled("episode").get_all_transitions())
missed = (done == 1) & (goal >= 0) & (goal != after)
print(f"    episode: {missed.sum()} relabelled transitions miss their goal and are done")
assert missed.any() and (rewards[missed] == -1).all()
print(f"  unfinished episode: {(before >= 2100).sum()} of {before.size} stored rows")
assert not (before >= 2100).any()
counts = [int((buffer.sample(BATCH)["goal"] >= 0).sum()) for _ in range(200)]
print(f"  share (k = 4): {relabelled.mean():.0%} of stored rows,", end=" ")
print(f"{min(counts)} to {max(counts)} of {BATCH} in a batch")
assert relabelled.mean() == 0.8 and min(counts) < 200 and max(counts) > 210

goal = filled("final").get_all_transitions()["goal"]
steps = set((goal[goal >= 0] % 100).astype(int).tolist())
print(f"  final: goals of step {steps} of {LENGTH}, in {(goal >= 0).mean():.0%} of stored rows")
assert steps == {LENGTH} and (goal >= 0).mean() == 0.5

draws = [(np.random.seed(1), buffer.sample(BATCH)["obs"])[1] for _ in range(2)]
goals = [(np.random.seed(1), filled("future").get_all_transitions()["goal"])[1] for _ in range(2)]
print(f"  generator: np.random.seed repeats the sampled rows: {np.array_equal(*draws)},", end=" ")
print(f"the goals: {np.array_equal(*goals)}")
assert np.array_equal(*draws) and not np.array_equal(*goals)
END

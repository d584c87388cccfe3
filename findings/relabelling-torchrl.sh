#!/bin/sh
# torchrl 0.14.1, torch 2.13.0.
#
# How HERReplayBuffer relabels: a row of docs/peers.md.  The surprise: by default goals are taken from
# the state before an action, so that the state in which an episode ended is never a goal, not even
# under strategy="final", and 3 in 10 goals of "future" (ten-step episodes) are the state in which the
# transition starts.  achieved_goal_key=("next", "achieved_goal") takes them from after the action.
#
# It matters for every reward of the next state: the last step's success is never learned from.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile torchrl==0.14.1 numpy==2.4.6 torch==2.13.0
cd "$work"
RL_LOGGING_LEVEL=ERROR "$work/venv/bin/python" - <<'END'
import torch
from tensordict import TensorDict
from torchrl.data import HERReplayBuffer, LazyTensorStorage

LENGTH, BATCH = 10, 256


def reward(batch):
    return (batch["next", "achieved_goal"] == batch["desired_goal"]).float() - 1


def observation(state):
    return {"achieved_goal": torch.tensor([float(state)]), "desired_goal": -torch.ones(1)}


def filled(strategy, steps, **keys):
    """The state is 100 x episode + step, so that a goal tells where it was achieved."""
    storage = LazyTensorStorage(1000)
    buffer = HERReplayBuffer(reward, strategy=strategy, storage=storage, batch_size=BATCH, **keys)
    for t in range(steps):
        state = 100 * (1 + t // LENGTH) + t % LENGTH
        last = torch.tensor([t % LENGTH == LENGTH - 1])
        ends = {"done": last, "truncated": last, "terminated": torch.tensor([False])}
        following = {**observation(state + 1), "reward": -torch.ones(1), **ends}
        buffer.add(TensorDict({**observation(state), "next": following}))
    return buffer


def sampled(buffer, batches=100):
    """The state before and after the action, goal, reward, terminated: each [batch, 256]."""
    keys = "achieved_goal", ("next", "achieved_goal"), "desired_goal"
    keys += ("next", "reward"), ("next", "terminated")
    samples = [buffer.sample() for _ in range(batches)]
    return torch.stack([torch.stack([s[key][:, 0].float() for s in samples]) for key in keys])


def steps_of_goals(goal):
    return sorted({int(step) for step in goal[goal >= 0] % 100})


print("torchrl 0.14.1")
buffer = filled("future", 205)  # twenty episodes, and half of one
before, after, goal, rewards, terminated = sampled(buffer)
relabelled = goal >= 0
own = (goal == before)[relabelled].float().mean()
print(f"  goal (future): of steps {steps_of_goals(goal)} of {LENGTH};", end=" ")
print(f"{own:.0%} are the state before the action")
assert steps_of_goals(goal) == list(range(LENGTH)) and 0.25 < own < 0.35

reached = relabelled & (goal == after)
assert torch.equal(rewards == 0, reached)
print("  reward: 0 where the next state is the new goal, else -1 (as the function given compares)")
print(f"  termination: in {terminated[reached].sum():.0f} of {reached.sum()} relabelled successes")
assert not terminated.any()
unfinished = relabelled & (before >= 2100)
print(f"  unfinished episode: {unfinished.sum()} relabelled samples")
assert unfinished.any()
print(f"  share (her_ratio 0.8): {set(relabelled.sum(1).tolist())} of {BATCH}, the first rows")
assert (relabelled == (torch.arange(BATCH) < 204)).all()

for strategy, keys, expected in (
    ("final", {}, [9]),
    ("episode", {}, list(range(10))),
    ("final", {"achieved_goal_key": ("next", "achieved_goal")}, [10]),
):
    steps = steps_of_goals(sampled(filled(strategy, 200, **keys))[2])
    print(f"  {strategy} {keys or ''}: goals of steps {steps} of {LENGTH}")
    assert steps == expected

draws = [(torch.manual_seed(1), sampled(buffer, 1))[1] for _ in range(2)]
print(f"  generator: torch.manual_seed repeats the samples: {torch.equal(*draws)}")
assert torch.equal(*draws)
END

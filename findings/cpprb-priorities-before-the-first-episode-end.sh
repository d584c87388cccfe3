#!/bin/sh
# cpprb 11.0.0 (Python 3.8 to 3.12), numpy 2.4.6.
#
# HindsightReplayBuffer stores nothing until on_episode_end(goal).  Sampled before that, with priorities
# (the default) and a size that is a power of two, it returns a full batch without an error: rows that
# nobody added, with weights of NaN.  With priorities and another size it raises IndexError, and without
# priorities ValueError.
#
# It matters for loops that sample once a number of steps is reached: with a size of 2**20 and long
# episodes the first losses are NaN.
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


def sampled(size, prioritized):
    """After five steps of an episode that goes on."""
    buffer = HindsightReplayBuffer(
        size,
        {"obs": {}, "act": {}, "next_obs": {}},
        max_episode_len=10,
        reward_func=lambda next_state, action, goal: (next_state == goal)[:, 0] - 1.0,
        prioritized=prioritized,
    )
    for t in range(5):
        buffer.add(obs=t + 10, act=0, next_obs=t + 11)
    try:
        batch = buffer.sample(4)
    except (IndexError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    assert not np.isin(batch["obs"], range(10, 15)).any() and np.isnan(batch["weights"]).all()
    return f"obs {batch['obs'][:, 0]}, weights {batch['weights']}"


seen = [sampled(*how) for how in ((1024, True), (1000, True), (1024, False))]
for how, what in zip(("1024, priorities", "1000, priorities", "1024, no priorities"), seen):
    print(f"{how}: {what}")
assert seen[0].startswith("obs") and "IndexError" in seen[1] and "ValueError" in seen[2]
END

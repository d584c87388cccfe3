#!/bin/sh
# rejax 0.1.3 (jax 0.10.2, optax 0.2.8, gymnax 1.0.1).
#
# max_grad_norm is not the norm of anything: each element of the gradient is clipped to that size.  With
# 0.5, a gradient of norm 6.8 whose elements are 0.1 passes unchanged.
#
# It matters to comparisons that give rejax and another library "the same settings".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile rejax==0.1.3 gymnax==1.0.1 jax==0.10.2 flax==0.12.8 optax==0.2.8 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import jax
import numpy as np
import optax
from rejax import PPO

model = PPO.create(env="CartPole-v1", max_grad_norm=0.5).init_state(jax.random.PRNGKey(0)).actor_ts
for size in (0.1, 3.0):
    gradient = jax.tree_util.tree_map(lambda x: np.full(x.shape, size, np.float32), model.params)
    _, state = model.tx.update(gradient, model.tx.init(model.params))
    # Adam's first moment after one step is a tenth of the gradient that it was given.
    given = jax.tree_util.tree_map(lambda x: 10 * x, optax.tree_utils.tree_get(state, "mu"))
    before, after = float(optax.global_norm(gradient)), float(optax.global_norm(given))
    values = {round(float(x), 3) for leaf in jax.tree_util.tree_leaves(given) for x in leaf.ravel()}
    print(f"elements {size}, norm {before:.1f}: Adam gets elements {values}, norm {after:.1f}")
    assert values == {min(size, 0.5)} and after > 6
END

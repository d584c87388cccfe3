#!/bin/sh
# rejax 0.1.3, gymnax 1.0.1 (jax 0.10.2).
#
# rejax asks for gymnax without an upper bound, so pip takes 1.0.1, whose step() returns six values instead
# of five.  Every algorithm is created and initialised; the first step of training raises a ValueError.
#
# It matters to anyone who installs rejax today: `pip check` finds no conflict.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile rejax==0.1.3 gymnax==1.0.1 jax==0.10.2 flax==0.12.8 optax==0.2.8 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" -W ignore - <<'END'
import jax
import rejax

for name in ("PPO", "SAC", "DQN"):
    task = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    algorithm = getattr(rejax, name).create(env=task, total_timesteps=1000)
    algorithm.init_state(jax.random.PRNGKey(0))
    try:
        algorithm.train(jax.random.PRNGKey(0))
    except ValueError as error:
        print(f"{name}: created and initialised; train(): ValueError: {error}")
        assert "expected 5" in str(error)
    else:
        raise SystemExit(f"{name} trains")
END

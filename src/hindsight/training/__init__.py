"""The training loops, checkpoints and curves."""

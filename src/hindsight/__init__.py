"""Hindsight replay for reinforcement learning, and a replication of PPO-HER and MEHER.

Floors, each importing only from those before it: specs, streams -> nn, envs -> replay -> relabel
-> algorithms -> training -> (files) -> analysis -> figures -> report.  The two halves meet only in
files: nothing from analysis on imports torch.
"""

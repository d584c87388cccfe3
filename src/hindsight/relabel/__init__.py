"""Hindsight: pure functions from rollouts to relabelled trajectories, and goal selection."""

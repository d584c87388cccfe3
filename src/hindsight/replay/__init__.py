"""Rollouts and replay buffers."""

"""Specifications of runs, cells and experiments; the only package that reads configuration."""

"""Faults of the whole pipeline."""


def inject(count, rng, folder):
    yield from ()

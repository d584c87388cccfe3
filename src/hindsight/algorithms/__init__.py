"""One file per algorithm, to be read beside its paper."""

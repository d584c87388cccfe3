"""One module per algorithm, to be read beside its paper."""

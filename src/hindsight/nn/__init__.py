"""Networks, policy distributions and the optimiser, with a run axis."""

"""Networks, distributions and the optimiser with a run axis."""

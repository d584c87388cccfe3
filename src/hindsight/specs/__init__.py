"""What a run, a cell and an experiment are.  Nothing else in the package reads configuration."""

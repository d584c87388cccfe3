"""Goal environments with a run axis, and their gymnasium faces."""

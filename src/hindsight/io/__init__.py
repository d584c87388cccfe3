"""Files, locks, signals, compiled code, and process startup."""

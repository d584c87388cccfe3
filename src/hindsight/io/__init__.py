"""Files, and what else a process leaves on its machine."""

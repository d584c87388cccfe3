"""From results files to tables and statistics; never imports torch.

cells reads one results file and reduce makes arrays of it; metrics computes the papers' statistics,
statistics what a reviewer asks for beside them; summarise writes an experiment's tables, with
best_level and time_saved; arms selects rows by what an arm is.  Numbers, no sentences: `claims`
judges, `report` says.
"""

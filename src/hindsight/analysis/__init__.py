"""From results files to tables, statistics and verdicts; never imports torch.

cells reads one results file; metrics computes the papers' statistics, statistics what a reviewer
asks for beside them; summarise writes an experiment's tables; verdicts, judges and claims turn
tables into the verdict on each claim.
"""

"""From results files to tables, statistics and verdicts; never imports torch.

cells reads one results file and reduce makes arrays of it; metrics computes the papers' statistics,
statistics what a reviewer asks for beside them; summarise writes an experiment's tables, with
best_level and time_saved; judges and judges_meher turn tables into the verdicts on claims, answers
into words on the questions that the papers leave open.
"""

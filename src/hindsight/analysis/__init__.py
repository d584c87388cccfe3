"""From results files to tables and statistics; never imports torch.

cells reads one results file and reduce turns it into arrays. metrics computes the papers'
statistics, statistics those for intervals and tests. summarise writes an experiment's tables, with
best_level and sensitivity; arms selects rows by what an arm is. This package computes
numbers; `claims` judges them and `report` puts them into words.
"""

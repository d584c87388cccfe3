"""What others import: models with `learn` and `predict`, policies to take home, replay buffers
under other libraries' names.

Nothing else in the package imports from here.
"""

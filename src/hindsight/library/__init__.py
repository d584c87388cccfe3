"""The public library.

Models with `learn` and `predict`, exportable policies, and replay buffers with the interfaces of
other libraries.  No other package imports from here.
"""

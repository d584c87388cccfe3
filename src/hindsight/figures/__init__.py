"""From tables to figures; never imports torch.

figures.yaml defines all figures; `specs` reads it and imports no plotting library; `draw` draws.
"""

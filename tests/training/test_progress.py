"""What is said while a cell trains."""

import math

from hindsight.training.progress import Progress


def test_a_line_says_how_far_it_is_and_what_there_is_not_yet():
    line = Progress("cell", 2000, 8000, 100.0, -0.5, 0.25).text
    assert line == " 25%  100 steps/s  return -0.50  success 25%  at most 1.0 min left"
    line = Progress("cell", 2000, 8000, 100.0, math.nan, math.nan).text
    assert line == " 25%  100 steps/s  return –  success –  at most 1.0 min left"

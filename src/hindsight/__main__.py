"""`python -m hindsight`, which is what the workflow's jobs call."""

from hindsight.cli import main

main()

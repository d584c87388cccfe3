"""From claims, tables and figures to the two pages that people read; never imports torch."""

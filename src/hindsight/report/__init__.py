"""From claims, tables and figures to the published pages; never imports torch."""

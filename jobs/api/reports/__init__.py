"""Reports: what was done, and where documents stand."""

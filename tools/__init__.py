"""Tools for developers. `set_up.py` runs before any package is installed, so it uses the standard library only."""

"""
The attention list: one list for the overview, the API and `crawlctl status`.

Each module of this package reads one subject. `sources.py` names their functions.
To add a source, write a function that returns lines, and name it there.
"""

"""
What needs an operator's attention now: one list for the overview, the API and `manage.py status`.

Each module of this package reads one subject. `sources.py` names their functions: a new source is a function that returns lines, and an entry there.
"""

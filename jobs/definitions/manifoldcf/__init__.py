"""
Conversion of ManifoldCF's exported connections and jobs into definitions.

The input is JSON as ManifoldCF's REST API prints it. Each part that has no equivalent gives one note with its place, so
nothing is lost silently.
"""

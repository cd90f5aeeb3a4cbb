"""
The pages of reports: each has a form, a chart and a table, and one template shows them all.

The fields of a form have the same names as the parameters of the API, so both return the same report for the same
parameters.
"""

"""
The pages of reports: each has a form, a chart and a table, and one template shows them all.

The fields of a form have the names of the API's parameters, so the API returns the same report for the same parameters.
"""

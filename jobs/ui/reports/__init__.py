"""
The pages of reports: a form, a chart and a table each, put into words here and shown by one template.

A form's fields have the names of the API's parameters, so a page's report can be requested there, too.
"""

"""
The pages of reports: a form, a picture and a table each, all put into words here and shown by one template.

A form's fields are named as the parameters of the API, so what a page shows can be asked there, too.
"""

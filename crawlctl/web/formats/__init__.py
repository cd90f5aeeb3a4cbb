"""
The formats in which Django writes moments and numbers. They are the same in each language, because scripts and forms
read them.
"""

"""
Settings: what an operator may set, where it was said, and what counts.

What can be set is declared elsewhere, as rows of one table (`declaration`); here is what any such table
needs: reading its values from texts and from JSON (`kinds`), and the falling order of the places where
they were said (`effective`).
"""

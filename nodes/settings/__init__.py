"""
Settings: their declarations, the places where operators set them, and the effective values.

Applications declare their settings elsewhere, as rows of one table (`declaration`). This package has what any such
table needs: parsing values from text and from JSON (`kinds`), and the precedence of the places where they were set
(`effective`).
"""

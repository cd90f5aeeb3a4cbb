"""The page of authorities."""

"""The pages and the API of versions: their list, their differences, and reverts to an earlier version."""

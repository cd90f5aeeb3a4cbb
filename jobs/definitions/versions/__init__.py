"""The pages and the API of versions: their list, their differences, and the way back to an earlier one."""

"""Parts of the set-up pages: lists of bounded cost, lists of rows that the system owns, and confirmation pages."""

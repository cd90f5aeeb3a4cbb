"""The parts of any application's pages: the conditions of a page, the structure of its screen, numbers as text."""

"""Documents that move to another partition with the slots of their hosts."""

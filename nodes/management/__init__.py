"""Options and checks that the commands of several applications have."""

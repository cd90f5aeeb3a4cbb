"""The execution of distributed jobs by the nodes that have their items. It needs no Django."""

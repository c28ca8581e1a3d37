"""Grids of problems, computed once, on any number of processes and machines, kept in a store."""

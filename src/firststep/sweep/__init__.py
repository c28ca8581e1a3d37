"""Grids of problems, computed once, in any order, on any number of processes and machines, and kept in a store."""

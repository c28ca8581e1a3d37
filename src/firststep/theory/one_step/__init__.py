"""One gradient step on the first layer, then a ridge fit.

The exact asymptotics, in the order of docs/theory.md.
"""

"""One gradient step on the first layer, then a ridge fit: the exact asymptotics, in the order of docs/theory.md."""

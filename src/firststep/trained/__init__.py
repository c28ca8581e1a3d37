"""A look into trained weights: tensors from files, the bulk of a matrix, and what leaves it."""

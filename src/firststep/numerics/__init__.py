"""Mathematics that knows nothing of networks."""

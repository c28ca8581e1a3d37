"""The experiment at finite size: the real network, models of it, and baselines."""

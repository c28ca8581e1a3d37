"""What can be simulated: networks and baselines."""

"""What has a closed form: the small step, the spectrum of its weights, a bound for large ones."""

"""What is drawn: inputs and labels."""

"""What does it look like from outside? Rates, a whole network at one look, what is wrong with it, and metrics."""

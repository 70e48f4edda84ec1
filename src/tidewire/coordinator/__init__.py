"""The coordinator machine: who is there, and who should be connected to whom. Brokers go on without it. Pure."""

"""The vocabulary: values, value sets, filters, events, errors. Data and pure questions about it, nothing else."""

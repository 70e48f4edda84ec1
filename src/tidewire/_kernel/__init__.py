"""The C++ kernel. Nothing but its compiled module; what it means is said by its callers in ``matching``."""

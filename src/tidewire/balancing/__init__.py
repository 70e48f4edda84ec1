"""Who is overloaded, and what should move? So far: how load is measured."""

"""Which neighbours? Source trees, advertisements, subscriptions along them, barriers, roles.

Everything here is pure: a call says what happened, its answer (``answers.py``) what to tell whom and what to install.
"""

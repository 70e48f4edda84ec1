"""The simulator: the machines of broker and client in virtual time, over modelled links, with faults and checkers.

Everything follows from one seed. ``world.py`` is the way in; ``random_runs.py`` makes worlds of its own.
"""

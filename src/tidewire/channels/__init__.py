"""What does this query tell whom, when? Declarations of channels, their kinds and plans, subscriptions, results.

Everything here is pure: SQL in, decisions out. Who carries a plan out is the data cluster; ``evaluator.py`` stands for
it in the simulator, and is the oracle that the cluster's answers are compared with.
"""

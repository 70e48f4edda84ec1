"""The data cluster's machine: who is connected to it, brokers and operators, and what they say."""

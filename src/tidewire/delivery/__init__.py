"""Did it arrive, once, in order? Ticks, what is known of them, and what an edge may ask for again.

Everything here is pure: times are handed in, and a call answers; it sends nothing.
"""

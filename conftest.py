"""What holds for every test.

How many random examples the property tests try: `usual` in every run, `long` in `make sim`, `fuzz` in `make fuzz`. A
test that needs more or fewer says so in proportion: `@settings(max_examples=2 * settings().max_examples)`.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# No deadline: one slow example on a busy machine says nothing about the code. The same examples in every run: what is
# new is looked for by `make sim` and `make fuzz`.
settings.register_profile("usual", deadline=None, max_examples=300, print_blob=True, derandomize=True)
settings.register_profile(
    "long",
    settings.get_profile("usual"),
    derandomize=False,
    max_examples=20_000,
    suppress_health_check=[HealthCheck.too_slow],
)
# A sanitized kernel is slow: in proportion to the time that `make fuzz` gives each kind of input. Some take a quarter.
settings.register_profile(
    "fuzz", settings.get_profile("long"), max_examples=max(8, int(float(os.environ.get("TIDEWIRE_FUZZ_S", "60")) / 2))
)
settings.load_profile("usual")

# Started in the background of a shell, tests would ignore Ctrl-C, and so would the programs that they end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

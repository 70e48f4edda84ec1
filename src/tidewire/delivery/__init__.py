"""Did it arrive, once, in order? Ticks and what is known of them; what is held for whom, and for how long."""

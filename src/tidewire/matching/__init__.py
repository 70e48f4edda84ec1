"""Which filters match, cover, overlap, merge? One matcher protocol with several engines, and the filters' algebra."""

"""Who is this, and what may it do? Permissions as filters, signed tokens, and the authority that knows both."""

// Events are flat: `where.lat` is one name. People read them nested.

/** { "where.lat": 1, "n": 2 } → { where: { lat: 1 }, n: 2 }. A name that is both a value and a parent stays flat. */
export function nested(attributes) {
  const root = new Map();
  for (const [name, value] of Object.entries(attributes)) {
    const parts = name.split(".");
    let at = root;
    for (const part of parts.slice(0, -1)) {
      if (!at.has(part)) at.set(part, new Map());
      at = at.get(part);
      if (!(at instanceof Map)) break;
    }
    if (at instanceof Map && !at.has(parts.at(-1))) at.set(parts.at(-1), value);
    else root.set(name, value);
  }
  return root;
}

/** The same as plain objects, for JSON; no name of an event can reach a prototype. */
export function plain(tree) {
  if (!(tree instanceof Map)) return tree;
  const found = Object.create(null);
  for (const [name, value] of tree) found[name] = plain(value);
  return found;
}

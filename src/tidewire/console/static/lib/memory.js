// What the browser remembers between visits. Where storage is forbidden, nothing is remembered, and nothing breaks.
const PREFIX = "tidewire.";

export function recall(name, storage = () => localStorage) {
  try {
    return storage().getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function remember(name, value, storage = () => localStorage) {
  try {
    if (value === null) storage().removeItem(PREFIX + name);
    else storage().setItem(PREFIX + name, value);
  } catch {
    // Not remembered.
  }
}

// Runs before the first paint, so that a chosen theme does not flash. lib/theme.js does the rest.
try {
  const chosen = localStorage.getItem("tidewire.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden: the system's theme it is.
}

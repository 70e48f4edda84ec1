// Which page, and with what: #/lab?filter=... The fragment stays in the browser: what somebody types is in no log.
import { createStore } from "./store.js";

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path, parameters: new URLSearchParams(query) };
}

export const route = createStore(read());
addEventListener("hashchange", () => route.set(read()));

export const addressOf = (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
};

export function go(path) {
  location.hash = addressOf(path);
}

/** Note what the page shows in the address, without a step in the history. */
export function note(path, parameters) {
  history.replaceState(null, "", addressOf(path, parameters));
}

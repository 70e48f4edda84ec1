// What a screen reader is told without asking: changes of state, never figures, and never more often than it can be
// listened to. The shell holds the live region.
import { createStore } from "./store.js";

const BETWEEN_S = 3;
const WAITING_MAX = 4;

export const announcement = createStore("");
let waiting = [];
let timer = 0;

export function announce(text) {
  waiting = [...waiting.filter((said) => said !== text), text].slice(-WAITING_MAX);
  if (!timer) next();
}

function next() {
  timer = 0;
  if (!waiting.length) return;
  announcement.set(waiting.join(" "));
  waiting = [];
  timer = setTimeout(next, BETWEEN_S * 1000);
}

// Keys that do something anywhere on a page. Single letters can be switched off (they collide with speech input), and
// never act while somebody types.
import { createStore } from "./store.js";
import { recall, remember } from "./memory.js";
import { useLayoutEffect } from "./ui.js";

export const letters = createStore(recall("letters") !== "off");

export function switchLetters(isOn) {
  remember("letters", isOn ? null : "off");
  letters.set(isOn);
}

const registered = new Map();
let prefix = "";

function isTyping(target) {
  // A dialog that has closed may have the focus until the page is drawn again.
  return target.closest?.("input, textarea, select, [contenteditable], dialog[open]") !== null;
}

document.addEventListener("keydown", (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey || isTyping(press.target) || !letters.get()) return;
  const found = registered.get(`${prefix}${press.key}`) ?? registered.get(press.key);
  prefix = press.key === "g" && !prefix ? "g " : "";
  if (!found) return;
  press.preventDefault();
  found();
});

/** While the component is there, these keys call these functions: { "p": pause, "g o": open }. */
export function useShortcuts(keys) {
  useLayoutEffect(() => {
    for (const [key, act] of Object.entries(keys)) registered.set(key, act);
    return () => {
      for (const [key, act] of Object.entries(keys)) if (registered.get(key) === act) registered.delete(key);
    };
  });
}

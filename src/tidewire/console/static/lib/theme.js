// Light or dark: the system's choice, until somebody makes another.
import { createStore } from "./store.js";
import { recall, remember } from "./memory.js";

const CHOICES = ["system", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");

const chosenBefore = recall("theme");
export const theme = createStore(withOutcome(CHOICES.includes(chosenBefore) ? chosenBefore : "system"));

system.addEventListener("change", () => choose(theme.get().choice));

function withOutcome(choice) {
  return { choice, isDark: choice === "system" ? system.matches : choice === "dark" };
}

function choose(choice) {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  remember("theme", choice === "system" ? null : choice);
  theme.set(withOutcome(choice));
}

/** System, light, dark, and around. */
export function chooseNextTheme() {
  choose(CHOICES[(CHOICES.indexOf(theme.get().choice) + 1) % CHOICES.length]);
}

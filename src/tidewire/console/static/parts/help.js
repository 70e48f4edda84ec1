// The shortcuts, and where to read on.
import { letters, switchLetters } from "../lib/shortcuts.js";
import { useStore } from "../lib/store.js";
import { html } from "../lib/ui.js";
import { Dialog } from "./dialog.js";

const SECTIONS = [
  [
    "Anywhere",
    [
      ["g then o", "Overlay"],
      ["g then l", "Filter lab"],
      ["t", "Colours: system, light, dark"],
      ["?", "This help"],
    ],
  ],
  [
    "Overlay",
    [
      ["Arrow keys", "From broker to broker, on the map"],
      ["Enter", "Open the broker or link"],
      ["Escape", "Close its details"],
    ],
  ],
  [
    "Filter lab",
    [
      ["/", "To the filter"],
      ["Ctrl + Enter", "Read the filter at once"],
      ["p", "Pause or resume the events"],
      ["c", "Clear the list of events"],
    ],
  ],
];

export function Help({ isOpen, onClose }) {
  const isOn = useStore(letters);
  return html`<${Dialog} isOpen=${isOpen} onClose=${onClose} title="Keyboard shortcuts">
    <div class="shortcuts">
      ${SECTIONS.map(
        ([title, keys]) =>
          html`<section key=${title}>
            <h3>${title}</h3>
            <dl>
              ${keys.map(
                ([key, what]) =>
                  html`<div key=${key}>
                    <dt>${keysOf(key)}</dt>
                    <dd>${what}</dd>
                  </div>`,
              )}
            </dl>
          </section>`,
      )}
    </div>
    <label class="check">
      <input type="checkbox" checked=${isOn} onChange=${(change) => switchLetters(change.target.checked)} />
      Single-letter shortcuts
    </label>
  <//>`;
}

function keysOf(text) {
  return text.split(/( then | \+ )/).map((part, at) => (at % 2 ? part : html`<kbd key=${at}>${part}</kbd>`));
}

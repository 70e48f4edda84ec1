// Line icons of our own, 20 by 20. They are always beside a name, or in a button that has one.
import { html } from "../lib/ui.js";

const PATHS = {
  brand: "M1.5 7.5c2.8-3.4 5.7-3.4 8.5 0s5.7 3.4 8.5 0M1.5 13.5c2.8-3.4 5.7-3.4 8.5 0s5.7 3.4 8.5 0",
  overlay: "M7.5 2.5h5v4h-5zM2 13.5h5v4H2zM13 13.5h5v4h-5zM10 6.5v3.5M4.5 13.5V10h11v3.5",
  lab: "M2.5 4h15l-5.5 6.5V16l-4 1.5v-7z",
  sun: "M10 6a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM10 1v2M10 17v2M1 10h2M17 10h2M4 4l1 1M15 15l1 1M4 16l1-1M15 5l1-1",
  moon: "M16.5 12.2A7 7 0 0 1 7.8 3.5 7 7 0 1 0 16.5 12.2z",
  system: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  help: "M7.3 7.5a2.7 2.7 0 1 1 4 2.4c-.9.5-1.3 1-1.3 2M10 14.9v.2M10 1.8a8.2 8.2 0 1 1 0 16.4 8.2 8.2 0 0 1 0-16.4z",
  key: "M12.5 2.5a5 5 0 1 1-2.2 9.5L8.5 14H6.5v2H4.5v1.5H2v-3l5.9-5.9A5 5 0 0 1 12.5 2.5zM14 6v.1",
  close: "M4.5 4.5l11 11M15.5 4.5l-11 11",
  pause: "M6.5 4v12M13.5 4v12",
  play: "M5.5 3.5l10 6.5-10 6.5z",
  copy: "M7 7h9.5v10H7zM4 13H3V3h9.5v1",
  warning: "M10 2.5 18.5 17h-17zM10 8v4M10 14.3v.2",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}

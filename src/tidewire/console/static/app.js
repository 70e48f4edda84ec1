// The shell: landmarks, navigation, theme, connection, help. A page is one line in PAGES and one module.
import { html, render, useEffect, useRef, useState } from "./lib/ui.js";
import { announcement } from "./lib/announce.js";
import { overlay, watchOverlay } from "./lib/overlay-feed.js";
import { addressOf, go, route } from "./lib/route.js";
import { useShortcuts } from "./lib/shortcuts.js";
import { useStore } from "./lib/store.js";
import { chooseNextTheme, theme } from "./lib/theme.js";
import { Help } from "./parts/help.js";
import { Icon } from "./parts/icon.js";
import { TokenDialog, TokenMenu } from "./parts/token.js";

const PAGES = [
  { path: "overlay", title: "Overlay", key: "g o", icon: "overlay", load: () => import("./pages/overlay.js") },
  { path: "lab", title: "Filter lab", key: "g l", icon: "lab", load: () => import("./pages/lab.js") },
];

const STATUS_WORDS = { connecting: "Connecting…", live: "Live", lost: "Reconnecting…", refused: "No access" };
const THEME_WORDS = { system: "as the system", light: "light", dark: "dark" };

function Connection() {
  const { status } = useStore(overlay);
  return html`<p class="connection" data-status=${status}>
    <span class="dot" aria-hidden="true"></span>${STATUS_WORDS[status]}
  </p>`;
}

function Navigation({ current }) {
  return html`<nav class="pages" aria-label="Pages">
    <ul>
      ${PAGES.map(
        (page) =>
          html`<li key=${page.path}>
            <a href=${addressOf(page.path)} aria-current=${page === current ? "page" : null}>
              <${Icon} name=${page.icon} />${page.title}
            </a>
          </li>`,
      )}
    </ul>
  </nav>`;
}

function Tools({ onHelp }) {
  const { choice } = useStore(theme);
  const icon = { system: "system", light: "sun", dark: "moon" }[choice];
  return html`<div class="tools">
    <${Connection} />
    <${TokenMenu} />
    <button
      class="quiet"
      type="button"
      onClick=${chooseNextTheme}
      aria-label=${`Colours: ${THEME_WORDS[choice]}. Change`}
      title=${`Colours: ${THEME_WORDS[choice]}`}
    >
      <${Icon} name=${icon} />
    </button>
    <button
      class="quiet"
      type="button"
      onClick=${onHelp}
      aria-label="Help and keyboard shortcuts"
      title="Help and keyboard shortcuts (?)"
    >
      <${Icon} name="help" />
    </button>
  </div>`;
}

function usePage(current) {
  const [loaded, setLoaded] = useState({ page: null, View: null, problem: null });
  useEffect(() => {
    let isCurrent = true;
    document.title = `${current.title} · Tidewire`;
    current.load().then(
      (module) => isCurrent && setLoaded({ page: current, View: module.default, problem: null }),
      (problem) => isCurrent && setLoaded({ page: current, View: null, problem }),
    );
    return () => (isCurrent = false);
  }, [current]);
  return loaded;
}

function App() {
  const { path, parameters } = useStore(route);
  const current = PAGES.find((page) => page.path === path) ?? PAGES[0];
  const { page, View, problem } = usePage(current);
  const [isHelping, setHelping] = useState(false);
  const main = useRef(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else main.current.focus(); // a new page is read from its beginning
  }, [current]);
  useShortcuts({
    "?": () => setHelping(true),
    t: chooseNextTheme,
    ...Object.fromEntries(PAGES.map(({ key, path: to }) => [key, () => go(to)])),
  });
  return html`
    <a class="skip" href="#main" onClick=${(click) => (click.preventDefault(), main.current.focus())}
      >Skip to the content</a
    >
    <div class="shell">
      <header class="top">
        <a class="brand" href=${addressOf(PAGES[0].path)}><${Icon} name="brand" />Tidewire</a>
        <${Tools} onHelp=${() => setHelping(true)} />
      </header>
      <${Navigation} current=${current} />
      <main id="main" tabindex="-1" ref=${main}>
        ${problem && html`<p class="notice grave" role="alert">Reload: a part is missing (${problem.message}).</p>`}
        ${View && page === current && html`<${View} parameters=${parameters} />`}
      </main>
    </div>
    <${Announcer} />
    <${Help} isOpen=${isHelping} onClose=${() => setHelping(false)} />
    <${TokenDialog} />
  `;
}

function Announcer() {
  return html`<p class="unseen" role="status" aria-live="polite">${useStore(announcement)}</p>`;
}

watchOverlay();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);

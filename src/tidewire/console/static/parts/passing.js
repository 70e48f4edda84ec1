// The events that match, as they pass. What an event holds is shown as text, whatever it says.
import { html, useState } from "../lib/ui.js";
import { announce } from "../lib/announce.js";
import { bytes, clock, count, duration } from "../lib/format.js";
import { nested, plain } from "../lib/nesting.js";
import { EVENTS_MAX } from "../lib/sample.js";
import { Icon } from "./icon.js";

const SUMMARY_MAX = 160;
const TEXT_MAX = 2_000;

function kindOf(value) {
  if (value === null) return "null";
  return { string: "string", number: "number", boolean: "boolean" }[typeof value] ?? "other";
}

function shown(value) {
  const text = typeof value === "string" ? `"${value}"` : (JSON.stringify(value) ?? String(value));
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}

function summaryOf(attributes) {
  const parts = [];
  let length = 0;
  for (const [name, value] of Object.entries(attributes)) {
    const part = `${name}=${shown(value)}`;
    parts.push(part);
    length += part.length + 2;
    if (length > SUMMARY_MAX) break;
  }
  return parts.join("   ").slice(0, SUMMARY_MAX);
}

function Tree({ tree }) {
  return html`<ul class="tree">
    ${[...tree].map(([name, value]) =>
      value instanceof Map
        ? html`<li key=${name}><span class="key">${name}</span><${Tree} tree=${value} /></li>`
        : html`<li key=${name}>
            <span class="key">${name}</span> <span class="value" data-kind=${kindOf(value)}>${shown(value)}</span>
          </li>`,
    )}
  </ul>`;
}

function CopyButton({ attributes }) {
  const [outcome, setOutcome] = useState("Copy as JSON");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(plain(nested(attributes)), null, 2));
      setOutcome("Copied");
      announce("Copied.");
    } catch {
      setOutcome("The browser does not allow it");
    }
    setTimeout(() => setOutcome("Copy as JSON"), 2000);
  };
  return html`<button type="button" class="small" onClick=${copy}><${Icon} name="copy" />${outcome}</button>`;
}

/** A body is never decoded: its size, and what its publisher calls it. The text is base64. */
function sizeOf(body, contentType) {
  const size = Math.floor((body.length * 3) / 4) - (body.match(/=+$/)?.[0].length ?? 0);
  return `${bytes(size)}${contentType ? ` (${contentType})` : ""}`;
}

function Passed({ id, attributes, at, latency, body, contentType, isOpen, onToggle }) {
  return html`<li class="passed" data-open=${isOpen ? "" : null}>
    <button
      type="button"
      class="passed-head"
      aria-expanded=${isOpen ? "true" : "false"}
      aria-controls=${`event-${id}`}
      onClick=${onToggle}
    >
      <time>${clock(at)}</time><span class="summary">${summaryOf(attributes)}</span>
    </button>
    ${
      isOpen &&
      html`<div class="passed-body" id=${`event-${id}`}>
        <${Tree} tree=${nested(attributes)} />
        <div class="row between">
          <span class="hint">
            ${duration(latency)}${" from publisher to console"}
            ${body !== undefined && `, with a body of ${sizeOf(body, contentType)}`}
          </span>
          <${CopyButton} attributes=${attributes} />
        </div>
      </div>`
    }
  </li>`;
}

export function Passing({ events, waiting, isPaused, onPause, onClear }) {
  const [open, setOpen] = useState(null);
  const toggle = (key) => {
    setOpen(open === key ? null : key);
    if (open !== key) onPause(true); // nothing moves under who reads
  };
  return html`<section class="panel passing" aria-labelledby="passing-title">
    <div class="row between">
      <h2 id="passing-title">Matching events</h2>
      <div class="row">
        <button type="button" class="small" onClick=${onClear} disabled=${!events.length && !waiting}>Clear</button>
        <button type="button" class="small" onClick=${() => onPause(!isPaused)}>
          <${Icon} name=${isPaused ? "play" : "pause"} />${isPaused ? "Resume" : "Pause"}
        </button>
      </div>
    </div>
    <p class="hint">
      ${isPaused ? `Paused. Newer events that wait: ${count(waiting)}.` : `Newest first, ${EVENTS_MAX} at most.`}
    </p>
    ${
      events.length
        ? html`<ol class="events">
            ${events.map(({ key, ...event }) => {
              return html`<${Passed}
                key=${key}
                id=${key}
                ...${event}
                isOpen=${open === key}
                onToggle=${() => toggle(key)}
              />`;
            })}
          </ol>`
        : html`<p class="nothing">Nothing has matched yet.</p>`
    }
  </section>`;
}

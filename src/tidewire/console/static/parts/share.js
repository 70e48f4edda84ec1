// How much of the live traffic a filter matches, and on how many events that was seen.
import { html } from "../lib/ui.js";
import { count, percent, plural } from "../lib/format.js";

function Words({ status, problem, share }) {
  if (status === "lost") return html`<p class="notice warning" role="status">Reconnecting… ${problem?.message}</p>`;
  if (status === "refused") return html`<p class="notice grave" role="alert">${problem?.message}</p>`;
  if (!share) return html`<p class="hint">Connecting to the live traffic…</p>`;
  if (!share.seen) {
    return html`<p class="hint">No event has passed in the last ${share.windowS} s. To send one, in a terminal:</p>
      <pre><code>tidewire pub '${'{"class": "QUAKE", "magnitude": 6.4}'}'</code></pre>`;
  }
  return html`<p class="hint">
    ${count(share.matched)} of ${plural(share.seen, "event")} seen in the last ${share.windowS} s
  </p>`;
}

export function Share({ status, problem, share }) {
  const part = share?.seen ? share.matched / share.seen : null;
  return html`<section class="panel share" aria-labelledby="share-title">
    <h2 id="share-title">Share of live traffic</h2>
    <p class="share-figure" data-old=${status === "live" ? null : ""}>${part === null ? "–" : percent(part)}</p>
    <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="4" />
      <rect class="fill" width=${(part ?? 0) * 100} height="4" />
    </svg>
    <${Words} status=${status} problem=${problem} share=${share} />
  </section>`;
}

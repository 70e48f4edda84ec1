// The network as it is: brokers, links, rates, load.
import { html, useEffect, useState } from "../lib/ui.js";
import { HISTORY_S, history, overlay, watchOverlay } from "../lib/overlay-feed.js";
import { clock, count, perSecond, plural, short } from "../lib/format.js";
import { useStore } from "../lib/store.js";
import { Chart } from "../parts/chart.js";
import { Details } from "../parts/details.js";
import { Icon } from "../parts/icon.js";
import { NetworkMap } from "../parts/map.js";
import { BrokerTable, LinkTable } from "../parts/tables.js";

const TILES = [
  ["publishedPerS", "Published", "--series-1"],
  ["deliveriesPerS", "Deliveries", "--series-2"],
  ["forwardsPerS", "Forwards", "--series-3"],
];

function inWords(name, values) {
  const most = short(Math.max(0, ...values));
  return `${name}, the last ${HISTORY_S / 60} minutes: now ${short(values.at(-1))}, at most ${most} per second`;
}

function Tiles({ picture }) {
  const brokers = picture.brokers;
  const away = brokers.filter(({ state }) => state === "unreachable").length;
  const of = (name) => brokers.reduce((sum, broker) => sum + (broker[name] ?? 0), 0);
  return html`<ul class="tiles" aria-label="The whole network">
    <li class="tile">
      <p class="tile-name">Brokers</p>
      <p class="tile-figure">
        ${count(brokers.length - away)}
        ${away > 0 && html`<span class="tile-more" data-grade="over">${away} unreachable</span>`}
      </p>
      <p class="hint">
        ${[
          plural(picture.links.length, "link"),
          plural(of("publishers"), "publisher"),
          plural(of("subscribers"), "subscriber"),
        ].join(" · ")}
      </p>
    </li>
    ${TILES.map(
      ([rate, name, token]) =>
        html`<li class="tile" key=${rate}>
          <p class="tile-name">${name}</p>
          <p class="tile-figure">${perSecond(history.all[rate].at(-1))}</p>
          <${Chart}
            times=${history.times}
            series=${[{ label: name, values: history.all[rate], token, isFilled: true }]}
            label=${inWords(name, history.all[rate])}
          />
        </li>`,
    )}
  </ul>`;
}

function Trouble({ status, problem, picture }) {
  if (status === "lost") {
    const since = picture ? ` What you see is from ${clock(picture.at)}.` : "";
    return html`<div class="notice warning" role="status">
      <${Icon} name="warning" />
      <p>
        <strong>Reconnecting…</strong>${` ${sentence(problem.message)}${since} Is it still running? `}
        <code>tidewire up</code>${" starts it."}
      </p>
    </div>`;
  }
  if (status === "refused") {
    return html`<div class="notice grave" role="alert">
      <${Icon} name="warning" />
      <p><strong>The overlay cannot be shown.</strong> ${sentence(problem.message)}</p>
      <button type="button" onClick=${watchOverlay}>Try again</button>
    </div>`;
  }
  return null;
}

const sentence = (text) => text.replace(/[.\s]*$/, "") + "."; // as it is: it may begin with a name

function Empty() {
  return html`<div class="panel empty">
    <h2>No broker is there</h2>
    <p>The console asks the brokers that it was given and found none. Start a network in a terminal:</p>
    <pre><code>tidewire up</code></pre>
    <p class="hint">It appears here by itself.</p>
  </div>`;
}

function Waiting() {
  return html`<div class="panel empty" aria-busy="true"><p>Asking the brokers…</p></div>`;
}

export default function Overlay() {
  const { status, picture, problem } = useStore(overlay);
  const [chosen, setChosen] = useState(null);
  const isOld = status !== "live";
  useEffect(() => {
    // Where the details are below the map, a choice would otherwise change nothing that can be seen.
    if (chosen) document.querySelector(".details").scrollIntoView({ block: "nearest", behavior: "smooth" });
  }, [chosen]);
  return html`<div class="overlay">
    <div class="page-head">
      <h1>Overlay</h1>
      ${picture && html`<p class="hint">as of <time>${clock(picture.at)}</time></p>`}
    </div>
    <${Trouble} status=${status} problem=${problem} picture=${picture} />
    ${!picture && status === "connecting" && html`<${Waiting} />`}
    ${picture && !picture.brokers.length && html`<${Empty} />`}
    ${
      picture &&
      picture.brokers.length > 0 &&
      html`<div class="live" data-old=${isOld ? "" : null}>
        <${Tiles} picture=${picture} />
        <div class="with-details">
          <section class="panel" aria-label="Map">
            <${NetworkMap} picture=${picture} chosen=${chosen} onChoose=${setChosen} />
          </section>
          <${Details} picture=${picture} chosen=${chosen} onChoose=${setChosen} />
          <section class="panel">
            <h2>Brokers</h2>
            <${BrokerTable} brokers=${picture.brokers} chosen=${chosen} onChoose=${setChosen} />
          </section>
          <section class="panel">
            <h2>Links</h2>
            <${LinkTable} links=${picture.links} />
          </section>
        </div>
      </div>`
    }
  </div>`;
}

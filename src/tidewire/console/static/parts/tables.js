// The map again, as tables: for screen readers, for small screens, for figures side by side.
import { html } from "../lib/ui.js";
import { bytes, count, perSecond } from "../lib/format.js";
import { indicesOf } from "../lib/load.js";

function Scrolled({ name, children }) {
  return html`<div class="scrolled" role="region" aria-label=${name} tabindex="0">${children}</div>`;
}

function IndexCell({ text, grade, words }) {
  const isWorthAWord = grade === "over" || grade === "high";
  return html`<td class="number" data-grade=${grade}>
    ${text}${isWorthAWord && html`${" "}<span class="grade">${words}</span>`}
  </td>`;
}

export function BrokerTable({ brokers, chosen, onChoose }) {
  return html`<${Scrolled} name="Brokers, as a table">
    <table>
      <thead>
        <tr>
          <th scope="col">Broker</th>
          <th scope="col">Role</th>
          <th scope="col">State</th>
          <th scope="col" class="number">Clients</th>
          <th scope="col" class="number">Routes</th>
          <th scope="col" class="number">Events in</th>
          <th scope="col" class="number">Deliveries</th>
          <th scope="col" class="number">Forwards</th>
          <th scope="col" class="number">Input util.</th>
          <th scope="col" class="number">Output util.</th>
          <th scope="col" class="number">Matching delay</th>
        </tr>
      </thead>
      <tbody>
        ${brokers.map((broker) => {
          const id = `broker:${broker.broker}`;
          return html`<tr key=${broker.broker} data-chosen=${chosen === id ? "" : null}>
            <th scope="row">
              <button
                type="button"
                class="link-like"
                aria-pressed=${chosen === id ? "true" : "false"}
                onClick=${() => onChoose(chosen === id ? null : id)}
              >
                ${broker.broker}
              </button>
            </th>
            <td>${broker.role ?? "–"}</td>
            <td><span class="state" data-state=${broker.state}>${broker.state}</span></td>
            <td class="number">${count(broker.clients)}</td>
            <td class="number">${count(broker.routes)}</td>
            <td class="number">${perSecond(broker.rates?.eventsPerS)}</td>
            <td class="number">${perSecond(broker.rates?.deliveriesPerS)}</td>
            <td class="number">${perSecond(broker.rates?.forwardsPerS)}</td>
            ${indicesOf(broker.load).map(({ key, ...index }) => html`<${IndexCell} key=${key} ...${index} />`)}
          </tr>`;
        })}
      </tbody>
    </table>
  <//>`;
}

export function LinkTable({ links }) {
  if (!links.length) return html`<p class="hint">No links: these brokers do not know each other.</p>`;
  return html`<${Scrolled} name="Links, as a table">
    <table>
      <thead>
        <tr>
          <th scope="col">One</th>
          <th scope="col">Other</th>
          <th scope="col" class="number">One to other</th>
          <th scope="col" class="number">Other to one</th>
          <th scope="col" class="number">Bytes</th>
          <th scope="col" class="number">Queued</th>
        </tr>
      </thead>
      <tbody>
        ${links.map(
          ({ id, a, b, there, back, bytesPerS, queuedBytes }) =>
            html`<tr key=${id}>
              <th scope="row">${a}</th>
              <td>${b}</td>
              <td class="number">${perSecond(there?.eventsPerS)}</td>
              <td class="number">${perSecond(back?.eventsPerS)}</td>
              <td class="number">${bytes(bytesPerS)}/s</td>
              <td class="number">${bytes(queuedBytes)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  <//>`;
}

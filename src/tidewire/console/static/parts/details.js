// One broker, or one link, in full.
import { html } from "../lib/ui.js";
import { HISTORY_S, history } from "../lib/overlay-feed.js";
import { bytes, count, perSecond, short } from "../lib/format.js";
import { LoadBars } from "./bars.js";
import { Chart } from "./chart.js";
import { Icon } from "./icon.js";

const STATE_ADVICE = {
  unreachable: "It does not answer. Is its process running? Its clients have gone to other brokers if there are any.",
  draining: "Its clients are being moved away. When none is left it can be stopped.",
  full: "It takes no more clients.",
};

function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.map(
      ([name, value]) =>
        html`<div key=${name}>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

function Head({ title, subtitle, onClose }) {
  return html`<div class="details-head">
    <div>
      <h2 id="details-title">${title}</h2>
      <p class="hint">${subtitle}</p>
    </div>
    <button type="button" class="quiet" aria-label="Close the details" onClick=${onClose}>
      <${Icon} name="close" />
    </button>
  </div>`;
}

function BrokerDetails({ broker, links, onChoose }) {
  const rates = history.byBroker.get(broker.broker);
  const own = links.filter(({ a, b }) => a === broker.broker || b === broker.broker);
  const [events, deliveries] = [short(broker.rates?.eventsPerS), short(broker.rates?.deliveriesPerS)];
  const series = rates && [
    { label: "events in", values: rates.eventsPerS, token: "--series-1", isFilled: true },
    { label: "deliveries", values: rates.deliveriesPerS, token: "--series-2", dash: [5, 3] },
  ];
  return html`
    <${Head}
      title=${broker.broker}
      subtitle=${`${broker.role ?? "role unknown"} · ${broker.address}`}
      onClose=${() => onChoose(null)}
    />
    <p class="state" data-state=${broker.state}>${broker.state}</p>
    ${STATE_ADVICE[broker.state] && html`<p class="hint">${STATE_ADVICE[broker.state]}</p>`}
    <div class="details-parts">
      <section>
        <h3>Load</h3>
        <${LoadBars} load=${broker.load} />
      </section>
      <section>
        <h3>Rates</h3>
        ${
          series &&
          html`<${Chart}
              times=${history.times}
              series=${series}
              height=${150}
              hasAxes=${true}
              label=${`The last ${HISTORY_S / 60} minutes; now ${events} events, ${deliveries} deliveries per second`}
            />
            <p class="legend">
              <span class="swatch one"></span>${"events in "}<span class="swatch two"></span>${"deliveries, per second"}
            </p>`
        }
        <${Facts}
          facts=${[
            ["Events in", perSecond(broker.rates?.eventsPerS)],
            ["Deliveries", perSecond(broker.rates?.deliveriesPerS)],
            ["Forwards", perSecond(broker.rates?.forwardsPerS)],
            ["Bytes in", `${bytes(broker.rates?.bytesInPerS)}/s`],
            ["Bytes out", `${bytes(broker.rates?.bytesOutPerS)}/s`],
          ]}
        />
      </section>
      <section>
        <h3>Clients</h3>
        <${Facts}
          facts=${[
            ["Connected", count(broker.clients)],
            ["Publishing", count(broker.publishers)],
            ["Subscribed", count(broker.subscribers)],
            ["Routes", count(broker.routes)],
          ]}
        />
        ${
          own.length > 0 &&
          html`<h3>Links</h3>
            <ul class="plain">
              ${own.map(
                (link) =>
                  html`<li key=${link.id}>
                    <button type="button" class="link-like" onClick=${() => onChoose(`link:${link.id}`)}>
                      ${link.a === broker.broker ? link.b : link.a}
                    </button>
                    <span class="hint">${perSecond(link.eventsPerS)}</span>
                  </li>`,
              )}
            </ul>`
        }
      </section>
    </div>
  `;
}

function LinkDetails({ link, onChoose }) {
  const flow = (name, one) =>
    html`<section>
      <h3>${name}</h3>
      ${
        one
          ? html`<${Facts}
              facts=${[
                ["Events", perSecond(one.eventsPerS)],
                ["Bytes", `${bytes(one.bytesPerS)}/s`],
                ["Queued", bytes(one.queuedBytes)],
              ]}
            />`
          : html`<p class="hint">Not known: that broker does not answer.</p>`
      }
    </section>`;
  return html`
    <${Head} title=${`${link.a} – ${link.b}`} subtitle="link" onClose=${() => onChoose(null)} />
    <div class="details-parts">
      ${flow(`${link.a} → ${link.b}`, link.there)} ${flow(`${link.b} → ${link.a}`, link.back)}
      <section>
        <h3>Brokers</h3>
        <ul class="plain">
          ${[link.a, link.b].map(
            (name) =>
              html`<li key=${name}>
                <button type="button" class="link-like" onClick=${() => onChoose(`broker:${name}`)}>${name}</button>
              </li>`,
          )}
        </ul>
      </section>
    </div>
  `;
}

function Reading() {
  return html`
    <h2 id="details-title">How to read it</h2>
    <p>Choose a broker or a link to see it in full.</p>
    <dl class="reading">
      <div>
        <dt>in</dt>
        <dd>Input utilisation: arriving events, times the time to match one. From 100 % the queue grows.</dd>
      </div>
      <div>
        <dt>out</dt>
        <dd>Output utilisation: bytes sent, out of what the broker can send.</dd>
      </div>
      <div>
        <dt>match</dt>
        <dd>Matching delay of one event. The bar is logarithmic, from 0.1 µs to 1 ms.</dd>
      </div>
      <div>
        <dt>lines</dt>
        <dd>Links. Thicker is more events; dots run where most of them go.</dd>
      </div>
      <div>
        <dt>states</dt>
        <dd>A broker that is not just serving has its state on the card: unreachable, draining, or full.</dd>
      </div>
    </dl>
  `;
}

export function Details({ picture, chosen, onChoose }) {
  const broker = picture.brokers.find(({ broker: name }) => chosen === `broker:${name}`);
  const link = picture.links.find(({ id }) => chosen === `link:${id}`);
  return html`<section class="details panel" aria-labelledby="details-title">
    ${
      broker
        ? html`<${BrokerDetails} broker=${broker} links=${picture.links} onChoose=${onChoose} />`
        : link
          ? html`<${LinkDetails} link=${link} onChoose=${onChoose} />`
          : html`<${Reading} />`
    }
  </section>`;
}

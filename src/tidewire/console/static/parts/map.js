// The map of the network: an SVG in which every broker and every link has a name and can be reached by keyboard.
// One stop for Tab; the arrow keys go from one to the next.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { bytes, perSecond, short } from "../lib/format.js";
import { groupsOf, placeCards, route, thickness } from "../lib/layout.js";
import { indicesOf } from "../lib/load.js";

const homes = new Map(); // where an edge stood last, for as long as the console is open

const LABEL_WIDTH = 42; // beside the bars of a card: its name on the left, its figure on the right
const VALUE_WIDTH = 58;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The nearest of the others in that direction, straight ahead before aside; null if there is none. */
function nearest(here, others, [dx, dy]) {
  let best = null;
  let least = Infinity;
  for (const other of others) {
    const ahead = (other.x - here.x) * dx + (other.y - here.y) * dy;
    const aside = Math.abs((other.x - here.x) * dy) + Math.abs((other.y - here.y) * dx);
    if (ahead > 1 && ahead + aside * 2 < least) {
      least = ahead + aside * 2;
      best = other;
    }
  }
  return best;
}

export function nameOfBroker(broker) {
  const load = indicesOf(broker.load).map(({ name, text, words }) => `${name.toLowerCase()} ${text} ${words}`.trim());
  const rate = broker.rates
    ? `${perSpoken(broker.rates.eventsPerS)} in, ${perSpoken(broker.rates.deliveriesPerS, "deliveries")}`
    : "";
  return [`Broker ${broker.broker}`, broker.role ?? "role unknown", broker.state, rate, ...load]
    .filter(Boolean)
    .join(", ");
}

export function nameOfLink({ a, b, there, back }) {
  const said = (flow) => (flow ? `${perSpoken(flow.eventsPerS)}, ${bytes(flow.queuedBytes)} queued` : "not known");
  return `Link between ${a} and ${b}. ${a} to ${b}: ${said(there)}. ${b} to ${a}: ${said(back)}.`;
}

const perSpoken = (rate, what = "events") => `${short(rate)} ${what} per second`;

function BrokerCard({ broker, card, isChosen, isStop, onFocus, onChoose }) {
  const { x, y, width, height } = card;
  const inner = width - 24;
  const bar = Math.max(10, inner - LABEL_WIDTH - VALUE_WIDTH);
  const state = broker.state === "serving" ? "" : broker.state;
  return html`<g
    class="broker"
    data-id=${`broker:${broker.broker}`}
    data-state=${broker.state}
    data-role=${broker.role}
    transform=${`translate(${x} ${y})`}
    role="button"
    aria-pressed=${isChosen ? "true" : "false"}
    aria-label=${nameOfBroker(broker)}
    tabindex=${isStop ? 0 : -1}
    onFocus=${onFocus}
    onClick=${onChoose}
  >
    <rect class="card" width=${width} height=${height} rx="10" />
    <text class="name" x="12" y="24">${fitted(broker.broker, inner - 44, 8)}</text>
    <text class="role" x=${width - 12} y="24" text-anchor="end">${broker.role ?? "?"}</text>
    ${
      state
        ? html`<text class="state" x="12" y="45">${state}</text>`
        : html`<text class="rate" x="12" y="45"
              >${perSecond(broker.rates?.eventsPerS)}<tspan class="unit"> in</tspan></text
            >
            <text class="rate" x=${width - 12} y="45" text-anchor="end"
              >${perSecond(broker.rates?.deliveriesPerS)}<tspan class="unit"> out</tspan></text
            >`
    }
    ${indicesOf(broker.load).map(
      ({ key, short: label, fill, grade, text }, at) =>
        html`<g key=${key} class="index" data-grade=${grade} transform=${`translate(12 ${64 + at * 19})`}>
          <text class="label" y="8">${label}</text>
          <rect class="track" x=${LABEL_WIDTH} y="1" width=${bar} height="7" rx="3.5" />
          <rect class="fill" x=${LABEL_WIDTH} y="1" width=${fill && Math.max(2, bar * fill)} height="7" rx="3.5" />
          <text class="value" x=${inner} y="8" text-anchor="end">${text}</text>
        </g>`,
    )}
  </g>`;
}

function fitted(text, width, perCharacter) {
  const most = Math.max(3, Math.floor(width / perCharacter));
  return [...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text;
}

function LinkLine({ link, way, isChosen, isStop, onFocus, onChoose }) {
  const width = thickness(link.eventsPerS);
  // The way runs from a to b unless it was turned round; events run along it where most of them go.
  const goesThere = (link.there?.eventsPerS ?? 0) >= (link.back?.eventsPerS ?? 0);
  const direction = goesThere !== Boolean(way.isReversed) ? "along" : "against";
  return html`<g
    class="link"
    data-id=${`link:${link.id}`}
    role="button"
    aria-pressed=${isChosen ? "true" : "false"}
    aria-label=${nameOfLink(link)}
    tabindex=${isStop ? 0 : -1}
    onFocus=${onFocus}
    onClick=${onChoose}
  >
    <path class="reach" d=${way.path} />
    <path class="line" d=${way.path} stroke-width=${width} />
    ${
      link.eventsPerS > 0 &&
      html`<path class="flow" data-direction=${direction} d=${way.path} stroke-width=${Math.min(width, 3) * 0.6} />
        <text class="label" x=${way.x} y=${way.y} text-anchor=${way.anchor}>${perSecond(link.eventsPerS)}</text>`
    }
  </g>`;
}

function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const frame = element.current;
    const look = () => setWidth(Math.floor(frame.clientWidth));
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(frame);
    return () => watcher.disconnect();
  }, []);
  return [element, width];
}

export function NetworkMap({ picture, chosen, onChoose }) {
  const [element, width] = useWidth();
  const [stop, setStop] = useState(null);
  const shape = JSON.stringify([
    width,
    picture.brokers.map(({ broker, role }) => [broker, role]),
    picture.links.map(({ id }) => id),
  ]);
  const { cards, height, ways } = useMemo(() => {
    const placed = placeCards(groupsOf(picture.brokers, picture.links, homes), Math.max(width, 200));
    const found = picture.links.filter(({ a, b }) => placed.cards.has(a) && placed.cards.has(b));
    const way = ({ id, a, b }, lane) => [id, route(placed.cards.get(a), placed.cards.get(b), lane)];
    return { ...placed, ways: new Map(found.map(way)) };
  }, [shape]);
  const points = [
    ...[...cards].map(([name, card]) => ({
      id: `broker:${name}`,
      x: card.x + card.width / 2,
      y: card.y + card.height / 2,
    })),
    ...[...ways].map(([id, way]) => ({ id: `link:${id}`, x: way.x, y: way.y })),
  ];
  const current = points.some(({ id }) => id === stop) ? stop : points[0]?.id;
  const press = (event) => {
    if (event.key === "Enter" || event.key === " ") onChoose(current);
    else if (event.key === "Escape") onChoose(null);
    else if (event.key in ARROWS) {
      const here = points.find(({ id }) => id === current);
      const next = nearest(
        here,
        points.filter((point) => point !== here),
        ARROWS[event.key],
      );
      if (next) element.current.querySelector(`[data-id="${CSS.escape(next.id)}"]`)?.focus();
    } else return;
    event.preventDefault();
  };
  const common = (id) => ({
    isChosen: chosen === id,
    isStop: id === current,
    onFocus: () => setStop(id),
    onChoose: () => onChoose(chosen === id ? null : id),
  });
  return html`<div class="map" ref=${element}>
    <svg
      width=${width}
      height=${height}
      viewBox=${`0 0 ${width} ${height}`}
      role="group"
      aria-label="Map of brokers and links"
      aria-describedby="map-keys"
      onKeyDown=${press}
    >
      ${picture.links
        .filter(({ id }) => ways.has(id))
        .map(
          (link) =>
            html`<${LinkLine} key=${link.id} link=${link} way=${ways.get(link.id)} ...${common(`link:${link.id}`)} />`,
        )}
      ${picture.brokers.map(
        (broker) =>
          html`<${BrokerCard}
            key=${broker.broker}
            broker=${broker}
            card=${cards.get(broker.broker)}
            ...${common(`broker:${broker.broker}`)}
          />`,
      )}
    </svg>
    <p class="unseen" id="map-keys">
      Arrow keys go from one to the next, Enter opens the details. The tables below say the same.
    </p>
  </div>`;
}

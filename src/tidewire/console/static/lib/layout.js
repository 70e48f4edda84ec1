// Where does each broker stand on the map? Heads on top, their edges below them, in the order of their names: the
// same network always gives the same picture, and figures that change move nothing.
import { byName } from "./format.js";

export const CARD_HEIGHT = 124;
const CARD_WIDTH_MIN = 140;
const CARD_WIDTH_MAX = 216;
const GAP = 28; // between columns; links to lower rows run through it
const LEVEL_GAP = 76; // between a head and its edges: a link and its label
const ROW_GAP = 44;
const BAND_GAP = 64;
const MARGIN = 12;
const LANES = 4;
const ARC = 44; // room for links between heads that are no neighbours on the page

/**
 * Which head each edge stands below. `homes` remembers: a broker that has lost its links stays where it was.
 * Returns [{ top: broker or null, edges: [...] }] with names only.
 */
export function groupsOf(brokers, links, homes = new Map()) {
  const roles = new Map(brokers.map((broker) => [broker.broker, broker.role]));
  const neighbours = new Map(brokers.map((broker) => [broker.broker, []]));
  for (const { a, b } of links) {
    neighbours.get(a)?.push(b);
    neighbours.get(b)?.push(a);
  }
  const isTop = (name) => roles.has(name) && (roles.get(name) ?? (homes.has(name) ? "edge" : "both")) !== "edge";
  const tops = [...roles.keys()].filter(isTop).sort(byName);
  const below = new Map(tops.map((name) => [name, []]));
  const lone = [];
  for (const name of [...roles.keys()].filter((name) => !isTop(name)).sort(byName)) {
    const home = neighbours.get(name).filter(isTop).sort(byName)[0] ?? homes.get(name);
    if (home !== undefined) homes.set(name, home);
    (below.get(home) ?? lone).push(name);
  }
  const groups = tops.map((top) => ({ top, edges: below.get(top) }));
  return lone.length ? [...groups, { top: null, edges: lone }] : groups;
}

function bandsOf(groups, columns) {
  const share = Math.max(2, Math.floor(columns / groups.filter(({ top }) => top !== null).length));
  const bands = [];
  let used = Infinity;
  for (const group of groups) {
    const wide = Math.min(columns, Math.max(1, Math.min(group.edges.length, share)));
    if (used + wide > columns || group.top === null) {
      bands.push([]);
      used = 0;
    }
    bands.at(-1).push({ ...group, columns: wide });
    used += wide;
  }
  return bands;
}

/** The cards, as a Map from name to { x, y, width, height, row }, and the height of it all. */
export function placeCards(groups, width) {
  const columns = Math.max(1, Math.floor(width / (CARD_WIDTH_MIN + GAP)));
  const bands = bandsOf(groups, columns);
  const widest = Math.max(1, ...bands.map((band) => band.reduce((sum, group) => sum + group.columns, 0)));
  const step = Math.min(CARD_WIDTH_MAX + GAP * 2, width / widest);
  const card = Math.min(CARD_WIDTH_MAX, step - GAP);
  const cards = new Map();
  let y = MARGIN + (groups.length > 2 ? ARC : 0);
  for (const band of bands) {
    const total = band.reduce((sum, group) => sum + group.columns, 0);
    let left = (width - total * step) / 2;
    let bottom = y;
    for (const group of band) {
      bottom = Math.max(bottom, placeGroup(cards, group, { left, y, step, card }));
      left += group.columns * step;
    }
    y = bottom + BAND_GAP;
  }
  return { cards, height: y - BAND_GAP + MARGIN };
}

function placeGroup(cards, { top, edges, columns }, { left, y, step, card }) {
  const place = (name, centre, at, row) =>
    cards.set(name, { x: centre - card / 2, y: at, width: card, height: CARD_HEIGHT, row, gutter: step - card });
  let first = y;
  if (top !== null) {
    place(top, left + (columns * step) / 2, y, 0);
    first += CARD_HEIGHT + LEVEL_GAP;
  }
  edges.forEach((name, at) => {
    const row = Math.floor(at / columns);
    place(name, left + ((at % columns) + 0.5) * step, first + row * (CARD_HEIGHT + ROW_GAP), row + 1);
  });
  const rows = Math.ceil(edges.length / columns);
  return rows ? first + rows * CARD_HEIGHT + (rows - 1) * ROW_GAP : y + CARD_HEIGHT;
}

/**
 * The way of a link between two cards: { path, isReversed }, and where its label stands: { x, y, anchor }. Links
 * between heads that stand one above the other go around the left, each in a lane of its own.
 */
export function route(a, b, lane = 0) {
  const ax = a.x + a.width / 2;
  const bx = b.x + b.width / 2;
  if (a.y === b.y) return a.x < b.x ? sideways(a, b, ax, bx) : reversed(sideways(b, a, bx, ax));
  if (a.row === 0 && b.row === 0) return a.y < b.y ? around(a, b, lane) : reversed(around(b, a, lane));
  if (a.y > b.y) return reversed(downwards(b, a, bx, ax));
  return downwards(a, b, ax, bx);
}

function reversed(found) {
  return { ...found, isReversed: true };
}

function sideways(a, b, ax, bx) {
  const between = b.x - (a.x + a.width);
  if (between <= a.gutter * 2 + 1) {
    const y = a.y + a.height / 2;
    const [from, to] = [a.x + a.width, b.x];
    return { path: `M${from} ${y}H${to}`, x: (from + to) / 2, y: y - 12, anchor: "middle" };
  }
  const lift = a.y - ARC;
  return {
    path: `M${ax} ${a.y}C${ax} ${lift} ${bx} ${lift} ${bx} ${b.y}`,
    x: (ax + bx) / 2,
    y: a.y - ARC * 0.75 - 6,
    anchor: "middle",
  };
}

function around(a, b, lane) {
  const x = MARGIN - 8 + (lane % LANES) * 5;
  const [from, to] = [a, b].map(({ y }) => y + 28 + (lane % LANES) * 24);
  const corner = 14;
  const path =
    `M${a.x} ${from}H${x + corner}Q${x} ${from} ${x} ${from + corner}` +
    `V${to - corner}Q${x} ${to} ${x + corner} ${to}H${b.x}`;
  return { path, x: b.x - 9, y: to - 7, anchor: "end" };
}

function downwards(a, b, ax, bx) {
  const from = a.y + a.height;
  const to = b.y;
  const isLeft = bx < ax - 1;
  const label = { x: bx + (isLeft ? -9 : 9), y: to - 9, anchor: isLeft ? "end" : "start" };
  if (b.row <= a.row + 1 && to - from <= LEVEL_GAP + 1) {
    const bend = (to - from) * 0.55;
    return { path: `M${ax} ${from}C${ax} ${from + bend} ${bx} ${to - bend} ${bx} ${to}`, ...label };
  }
  // Around the cards in between: through the gap beside the column, then in from above.
  const gap = bx < ax ? b.x + b.width + b.gutter / 2 : b.x - b.gutter / 2;
  const turn = from + LEVEL_GAP * 0.45;
  const path =
    `M${ax} ${from}C${ax} ${turn} ${gap} ${turn - 8} ${gap} ${turn + 28}` +
    `V${to - 34}C${gap} ${to - 22} ${bx} ${to - 30} ${bx} ${to}`;
  return { path, ...label };
}

/** How thick a link is drawn: by magnitude, so that 10/s and 10,000/s can both be seen. */
export function thickness(eventsPerS) {
  return 1.5 + Math.min(8, 1.7 * Math.log10(1 + Math.max(0, eventsPerS)));
}

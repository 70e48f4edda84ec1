// The network as the door last saw it, and the last minutes of its rates. One stream for the whole console, whichever
// page is open, so that a history has no holes.
import { announce } from "./announce.js";
import { byName } from "./format.js";
import { createStore } from "./store.js";
import { follow } from "./api.js";

export const HISTORY_S = 300;
const ROLES = ["head", "both", "edge", null];
const RATES = ["eventsPerS", "deliveriesPerS", "forwardsPerS"];
const TOTALS = ["publishedPerS", "deliveriesPerS", "forwardsPerS"];

/** status: "connecting", "live", "lost" or "refused"; picture: the last one, or null; problem: why it is lost. */
export const overlay = createStore({ status: "connecting", picture: null, problem: null });

/** A picture as the pages want it: heads first, then by name, links with both directions in one. */
export function readPicture(document) {
  const brokers = [...document.brokers].sort(
    (a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || byName(a.broker, b.broker),
  );
  const order = new Map(brokers.map(({ broker }, at) => [broker, at]));
  const links = new Map();
  for (const flow of document.links) {
    const [a, b] = [flow.from, flow.to].sort((one, other) => order.get(one) - order.get(other));
    const id = JSON.stringify([a, b]);
    const link = links.get(id) ?? { id, a, b, there: null, back: null, eventsPerS: 0, bytesPerS: 0, queuedBytes: 0 };
    link[flow.from === a ? "there" : "back"] = flow;
    link.eventsPerS += flow.eventsPerS ?? 0;
    link.bytesPerS += flow.bytesPerS ?? 0;
    link.queuedBytes += flow.queuedBytes ?? 0;
    links.set(id, link);
  }
  return { brokers, links: [...links.values()], at: document.at };
}

/** Rates of the last minutes: of each broker, and of all together. Bounded. */
export class History {
  times = [];
  all = emptyRates(TOTALS);
  byBroker = new Map();

  add({ brokers, links, at }) {
    const before = this.times.length;
    this.times.push(at);
    const total = (name) => sum(brokers.map((broker) => broker.rates?.[name] ?? 0));
    // What comes in at some broker and did not come over a link has been published.
    this.all.publishedPerS.push(Math.max(0, total("eventsPerS") - sum(links.map((link) => link.eventsPerS))));
    for (const name of TOTALS.slice(1)) this.all[name].push(total(name));
    const seen = new Map(brokers.map((broker) => [broker.broker, broker.rates]));
    for (const name of seen.keys()) {
      if (!this.byBroker.has(name)) this.byBroker.set(name, emptyRates(RATES, before));
    }
    for (const [name, kept] of this.byBroker) {
      for (const rate of RATES) kept[rate].push(seen.get(name)?.[rate] ?? null);
    }
    this.#forget(at - HISTORY_S);
  }

  #forget(until) {
    const old = this.times.findIndex((time) => time >= until);
    if (old <= 0) return;
    this.times.splice(0, old);
    for (const [name, kept] of [[null, this.all], ...this.byBroker]) {
      for (const values of Object.values(kept)) values.splice(0, old);
      if (name !== null && kept[RATES[0]].every((value) => value === null)) this.byBroker.delete(name);
    }
  }
}

function emptyRates(names, length = 0) {
  return Object.fromEntries(names.map((rate) => [rate, Array(length).fill(null)]));
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export const history = new History();

function announceChanges(before, after) {
  const known = new Map(before.brokers.map((broker) => [broker.broker, broker.state]));
  for (const { broker, state } of after.brokers) {
    if (!known.has(broker)) announce(`Broker ${broker} has joined.`);
    else if (known.get(broker) !== state) announce(`Broker ${broker} is ${state}.`);
    known.delete(broker);
  }
  for (const broker of known.keys()) announce(`Broker ${broker} has left.`);
}

let isFollowed = false;

/** Begin to follow; the second call does nothing. A stream that was refused begins again. */
export function watchOverlay() {
  if (isFollowed) return;
  isFollowed = true;
  follow("v1/overlay/stream", {
    signal: new AbortController().signal,
    onMessage(name, document) {
      if (!Array.isArray(document.brokers)) return;
      const picture = readPicture(document);
      const last = overlay.get();
      if (last.picture) announceChanges(last.picture, picture);
      history.add(picture);
      overlay.set({ status: "live", picture, problem: null });
    },
    onState(status, problem = null) {
      const last = overlay.get();
      if (status === "live") {
        if (last.status === "lost") announce("The connection is back.");
        return; // the message that comes with it says the rest
      }
      if (status === "connecting" && last.status === "lost") return; // it stays lost: no flicker between two words
      if (status === "lost" && last.status === "live") announce("The connection is lost. Reconnecting.");
      overlay.set({ ...last, status, problem });
    },
  }).then(() => (isFollowed = false));
}

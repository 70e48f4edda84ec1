// What passes while a filter is looked at: the share that matches, and the events that do. Bounded, and told a few
// times a second at most, whatever the traffic. A page that nobody sees asks for nothing.
import { follow } from "./api.js";

export const EVENTS_MAX = 50;
const TELL_EVERY_S = 0.4;

/** Follows a filter until stop(); tell() hears { status, problem, share, events, missed }, newest event first. */
export function followSample(filter, tell) {
  let line = null;
  let state = { status: "connecting", problem: null, share: null, events: [], arrived: 0 };
  let timer = 0;
  let isPaused = false;
  let waiting = []; // newest first
  let missed = 0; // came while paused and found no room

  const flush = () => {
    timer = 0;
    if (!isPaused) {
      state = { ...state, events: [...waiting, ...state.events].slice(0, EVENTS_MAX) };
      waiting = [];
      missed = 0;
    }
    tell({ ...state, waiting: waiting.length + missed, isPaused });
  };
  const soon = () => (timer ||= setTimeout(flush, TELL_EVERY_S * 1000));

  const begin = () => {
    line = new AbortController();
    follow("v1/sample", { method: "POST", body: { filter }, signal: line.signal, onState, onMessage });
  };
  const end = () => {
    line?.abort();
    line = null;
  };
  const onState = (status, problem = null) => {
    if (status === state.status) return;
    if (status === "connecting" && state.status === "lost") return;
    state = { ...state, status, problem };
    soon();
  };
  const onMessage = (name, message) => {
    if (name === "share") state = { ...state, share: message };
    else if (name === "event") {
      state = { ...state, arrived: state.arrived + 1 };
      const came = { key: state.arrived, at: Date.now() / 1000, ...message };
      if (waiting.length === EVENTS_MAX) missed += 1;
      waiting = [came, ...waiting].slice(0, EVENTS_MAX);
    }
    soon();
  };
  const onSight = () => {
    if (document.hidden) end();
    else if (!line) begin();
  };

  document.addEventListener("visibilitychange", onSight);
  onSight();
  return {
    stop() {
      document.removeEventListener("visibilitychange", onSight);
      end();
      clearTimeout(timer);
    },
    /** Hold the list, or let it go on; without a wish, whichever it does not do now. */
    pause(isWanted = !isPaused) {
      isPaused = isWanted;
      flush();
    },
    clear() {
      state = { ...state, events: [] };
      waiting = [];
      missed = 0;
      flush();
    },
  };
}

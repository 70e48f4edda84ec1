// The console's client of the HTTP API: one place that knows paths, credentials, errors and reconnection.
import { createStore } from "./store.js";
import { messagesOf } from "./sse.js";
import { recall, remember } from "./memory.js";

const RETRY_S_FIRST = 0.5;
const RETRY_S_MAX = 10;
const QUIET_S_MAX = 40; // the door sends a heartbeat every 15 s

const inThisTab = () => sessionStorage;

/** What the door refused, with its code; or that it was not there: then status is 0. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.facts = error;
  }

  /** Whether the same request may succeed a little later. */
  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Whether a token is asked for, and what is known of it. The dialog of parts/token.js answers. */
export const credentials = createStore({
  isAsked: false,
  hasToken: Boolean(recall("token", inThisTab)),
  isWrong: false,
});
let answered = null; // resolves when the person has answered; shared by all requests that wait

export function giveToken(token) {
  remember("token", token, inThisTab);
  credentials.set({ isAsked: false, hasToken: token !== null, isWrong: false });
  answered?.resolve(token !== null);
  answered = null;
}

function askForToken() {
  if (!answered) {
    answered = {};
    answered.promise = new Promise((resolve) => (answered.resolve = resolve));
    const hadToken = recall("token", inThisTab) !== null;
    credentials.set({ isAsked: true, hasToken: hadToken, isWrong: hadToken });
  }
  return answered.promise;
}

async function open(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  for (;;) {
    const token = recall("token", inThisTab);
    const headers = { Accept: accept };
    if (token !== null) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await reach(path, { method, headers, signal, body: body && JSON.stringify(body) });
    if (response.ok) return response;
    const problem = await errorOf(response);
    if (response.status !== 401) throw problem;
    const isOldToken = recall("token", inThisTab) !== token; // another request has asked in the meantime
    if (!isOldToken && !(await askForToken())) throw problem;
    signal?.throwIfAborted();
  }
}

async function reach(path, options) {
  try {
    return await fetch(new URL(path, document.baseURI), { ...options, cache: "no-store", redirect: "error" });
  } catch (problem) {
    options.signal?.throwIfAborted();
    throw new ApiError(0, {
      code: "unreachable",
      message: `the console's server does not answer (${problem.message})`,
    });
  }
}

async function errorOf(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // Not one of the door's own answers: a proxy's, say.
  }
  const unknown = { code: "http", message: `the server answered ${response.status} ${response.statusText}` };
  return new ApiError(response.status, error && typeof error.message === "string" ? error : unknown);
}

/** Ask once: the JSON answer, or an ApiError. */
export async function ask(path, options) {
  return (await open(path, options)).json();
}

/**
 * Follow a stream until the signal aborts, over every loss of the connection. onState hears "connecting", "live",
 * "lost" (with the problem; it tries again) and "refused" (with the problem; it does not).
 */
export async function follow(path, { signal, onMessage, onState, ...options }) {
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    const line = new AbortController();
    const hangUp = () => line.abort();
    signal.addEventListener("abort", hangUp);
    let watchdog = 0;
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(hangUp, QUIET_S_MAX * 1000);
    };
    try {
      onState("connecting");
      heard();
      const response = await open(path, { ...options, signal: line.signal, accept: "text/event-stream" });
      for await (const { name, data } of messagesOf(response, heard)) {
        if (signal.aborted) return;
        attempt = 0;
        onState("live");
        onMessage(name, JSON.parse(data));
      }
      throw new ApiError(0, { code: "ended", message: "the server ended the stream" });
    } catch (problem) {
      if (signal.aborted) return;
      const known = problem instanceof ApiError ? problem : silence(problem);
      onState(known.isTemporary ? "lost" : "refused", known);
      if (!known.isTemporary) return;
      await pause(Math.min(RETRY_S_MAX, RETRY_S_FIRST * 2 ** attempt) * (0.75 + Math.random() / 2), signal);
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener("abort", hangUp);
      line.abort();
    }
  }
}

function silence(problem) {
  return new ApiError(0, { code: "silent", message: `the connection to the server broke off (${problem.message})` });
}

function pause(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

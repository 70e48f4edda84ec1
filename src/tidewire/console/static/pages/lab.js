// Type a filter, see what it does: mistakes as you type, its meaning, its cost, what of the live traffic it matches.
import { html, useEffect, useRef, useState } from "../lib/ui.js";
import { announce } from "../lib/announce.js";
import { ApiError, ask } from "../lib/api.js";
import { useSettled } from "../lib/debounce.js";
import { note } from "../lib/route.js";
import { followSample } from "../lib/sample.js";
import { useShortcuts } from "../lib/shortcuts.js";
import { Editor } from "../parts/editor.js";
import { Passing } from "../parts/passing.js";
import { Share } from "../parts/share.js";
import { Meaning, Mistake, spokenMistake } from "../parts/verdict.js";

const READ_AFTER_S = 0.2;
const SPEAK_AFTER_S = 1.2;
const SAMPLE_AFTER_S = 0.5;

const EXAMPLES = [
  ["Strong earthquakes", "class = 'QUAKE' and magnitude >= 6"],
  ["Near a place", "within(lat, lon, 38.3, 142.4, 300 km)"],
  ["One of several", "class in ('STOCK', 'BOND') and price between 10 and 20"],
  ["By prefix", "symbol like 'NY%' and volume > 1000"],
  ["Where a value is missing", "class = 'ALARM' and acknowledged_at is null"],
  ["Either, or", "severity >= 4 or (severity >= 2 and region = 'north')"],
];

const NOTHING = { status: "idle", problem: null, share: null, events: [], waiting: 0, isPaused: false };

/** What the door says of the text: { text, found } or { text, error }; null while it is being read. */
function useVerdict(text, readNow) {
  const [verdict, setVerdict] = useState(null);
  const read = async (wanted, signal) => {
    if (!wanted.trim()) return setVerdict(null);
    try {
      const found = await ask("v1/explain", { method: "POST", body: { filter: wanted }, signal });
      setVerdict({ text: wanted, found });
    } catch (problem) {
      if (signal.aborted) return undefined;
      if (!(problem instanceof ApiError)) throw problem;
      const isMistake = problem.status === 400;
      setVerdict({ text: wanted, [isMistake ? "error" : "problem"]: isMistake ? problem.facts : problem });
    }
    return undefined;
  };
  useSettled(text, READ_AFTER_S, read);
  readNow.current = () => read(text, new AbortController().signal);
  return verdict;
}

function useSample(filter) {
  const [state, setState] = useState(NOTHING);
  const line = useRef(null);
  useEffect(() => {
    setState({ ...NOTHING, status: filter ? "connecting" : "idle" });
    line.current = filter ? followSample(filter, setState) : null;
    return () => line.current?.stop();
  }, [filter]);
  return [state, line];
}

function Examples({ isNeeded, onChoose }) {
  const [isOpen, setOpen] = useState(true);
  useEffect(() => {
    // Where everything is in one column, what passes would otherwise be far below.
    if (matchMedia("(max-width: 60rem)").matches) setOpen(isNeeded);
  }, [isNeeded]);
  return html`<details class="examples" open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
    <summary><h2>Examples</h2></summary>
    <ul>
      ${EXAMPLES.map(
        ([title, filter]) =>
          html`<li key=${filter}>
            <button type="button" onClick=${() => onChoose(filter)}><span>${title}</span><code>${filter}</code></button>
          </li>`,
      )}
    </ul>
  </details>`;
}

function Verdict({ text, verdict }) {
  if (!text.trim())
    return html`<p class="hint">Say what you want, never where to find it. An empty filter is no filter.</p>`;
  if (!verdict) return html`<p class="hint" aria-busy="true">Reading…</p>`;
  if (verdict.problem)
    return html`<p class="notice warning" role="status">The filter could not be read: ${verdict.problem.message}</p>`;
  if (verdict.error) return html`<${Mistake} text=${verdict.text} error=${verdict.error} />`;
  return html`<${Meaning} found=${verdict.found} />`;
}

export default function Lab({ parameters }) {
  const [text, setText] = useState(parameters.get("filter") ?? "");
  const [sampled, setSampled] = useState("");
  const input = useRef(null);
  const readNow = useRef(() => {});
  const verdict = useVerdict(text, readNow);
  const error = verdict?.text === text ? verdict.error : undefined;
  const [sample, line] = useSample(sampled);

  const good = verdict?.found && verdict.text === text ? text : null;
  useSettled(good, SAMPLE_AFTER_S, () => {
    if (good !== null) setSampled(good);
    else if (!text.trim()) setSampled("");
  });
  useSettled(text, READ_AFTER_S, () => note("lab", text ? { filter: text } : {}));
  useSettled(verdict, SPEAK_AFTER_S, () => {
    if (error) announce(spokenMistake(error));
    else if (good) announce(`The filter is in order. ${verdict.found.meaning[0]}`);
  });
  useEffect(() => {
    const linked = parameters.get("filter");
    if (linked !== null) setText(linked);
  }, [parameters]);

  const pause = (isWanted) => line.current?.pause(isWanted);
  const choose = (filter) => {
    setText(filter);
    input.current.focus();
  };
  useShortcuts({ "/": () => input.current.focus(), p: () => pause(), c: () => line.current?.clear() });

  const isSampledNow = sampled !== "" && sampled === text;
  return html`<div class="lab">
    <div class="page-head"><h1>Filter lab</h1></div>
    <div class="lab-columns">
      <div class="lab-filter">
        <section class="panel" aria-label="Filter">
          <label class="editor-label" for="filter">Filter</label>
          <${Editor}
            text=${text}
            error=${error}
            describedBy="verdict"
            onInput=${setText}
            onSubmit=${() => readNow.current()}
            inputRef=${input}
          />
          <div id="verdict" class="verdict" data-old=${verdict && verdict.text !== text ? "" : null}>
            <${Verdict} text=${text} verdict=${verdict} />
          </div>
        </section>
        <section class="panel" aria-label="Examples">
          <${Examples} isNeeded=${!text.trim()} onChoose=${choose} />
        </section>
      </div>
      <div class="lab-live">
        ${
          sampled === ""
            ? html`<section class="panel empty" aria-label="Live traffic">
                <h2>Live traffic</h2>
                <p>
                  Type a filter, or choose an example: here you see how much of what passes it matches, and which
                  events.
                </p>
              </section>`
            : html`${!isSampledNow && html`<p class="hint still">Still shown for <code>${sampled}</code></p>`}
                <${Share} ...${sample} />
                <${Passing} ...${sample} onPause=${pause} onClear=${() => line.current?.clear()} />`
        }
      </div>
    </div>
  </div>`;
}

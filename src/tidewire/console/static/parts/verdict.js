// What the language says about a filter: the mistake and its place, or the meaning, the normal form and the cost.
import { html } from "../lib/ui.js";
import { offsetOf } from "./editor.js";

function excerptOf(text, position) {
  const offset = offsetOf(text, position);
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const end = text.indexOf("\n", offset);
  const line = text.slice(start, end < 0 ? undefined : end);
  const from = Math.max(0, offset - start - 40);
  return `${line.slice(from, from + 72)}\n${" ".repeat([...line.slice(from, offset - start)].length)}^`;
}

const oneOf = (names) => (names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`);

export function Mistake({ text, error }) {
  const hasPlace = error.position !== undefined && error.position !== null;
  return html`<div class="mistake">
    <p class="mistake-what">
      ${hasPlace && html`<span class="place">line ${error.line}, column ${error.column}:</span>`}
      ${` ${error.reason ?? error.message}`}
    </p>
    ${hasPlace && html`<pre aria-hidden="true">${excerptOf(text, error.position)}</pre>`}
    ${error.expected?.length > 0 && html`<p class="hint">Expected ${oneOf(error.expected)}.</p>`}
  </div>`;
}

/** In one sentence, for the ear. */
export function spokenMistake(error) {
  const place = error.position === undefined ? "" : `Line ${error.line}, column ${error.column}: `;
  const expected = error.expected?.length ? ` Expected ${oneOf(error.expected)}.` : "";
  return `${place}${error.reason ?? error.message}.${expected}`;
}

export function Meaning({ found }) {
  const [first, ...alternatives] = found.meaning;
  const isList = alternatives.length > 0;
  return html`<div class="meaning">
    <h2>Meaning</h2>
    <p class="said">${first}</p>
    ${
      isList &&
      html`<ol class="alternatives">
        ${alternatives.map((said, at) => html`<li key=${at}>${said.replace(/^\d+\. /, "")}</li>`)}
      </ol>`
    }
    ${found.warnings.map((warning) => html`<p key=${warning} class="notice warning">${warning}</p>`)}
    <h3>Normal form</h3>
    <pre class="form"><code>${found.normalForm}</code></pre>
    <h3>Cost</h3>
    <p><span class="figure">${found.cost}</span> <span class="hint">${found.costMeaning}</span></p>
    ${
      found.access.length > 0 &&
      html`<h3>How the index finds it</h3>
        <ul>
          ${found.access.map((way) => html`<li key=${way}>${way}</li>`)}
        </ul>`
    }
  </div>`;
}

// The three load indices as bars with their figures.
import { indicesOf } from "../lib/load.js";
import { html } from "../lib/ui.js";

export function LoadBars({ load }) {
  return html`<dl class="bars">
    ${indicesOf(load).map(
      ({ key, name, fill, grade, text, words }) =>
        html`<div key=${key} data-grade=${grade}>
          <dt>${name}</dt>
          <dd>
            <span class="figure">${text}</span>${words && html` <span class="grade">${words}</span>`}
            <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
              <rect class="track" width="100" height="6" />
              <rect class="fill" width=${fill && Math.max(0.8, fill * 100)} height="6" />
            </svg>
          </dd>
        </div>`,
    )}
  </dl>`;
}

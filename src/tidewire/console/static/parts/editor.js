// The filter's text. A textarea, because nothing else is as good with keyboards, screen readers and phones; behind it
// the same text once more, in which the place of a mistake is marked.
import { html, useLayoutEffect, useRef } from "../lib/ui.js";

/** A place in code points, as the parser counts, → in the units of a JavaScript string. */
export function offsetOf(text, position) {
  return [...text].slice(0, position).join("").length;
}

/** What stands at the place: a word, one sign, or, at the end, nothing. */
export function placeOf(text, position) {
  const start = offsetOf(text, position);
  const [found = ""] = /^(\w+|[^\s\w])/u.exec(text.slice(start)) ?? [];
  return { start, end: start + found.length };
}

function Backdrop({ text, place, scroll }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    element.current.scrollTop = scroll.current?.scrollTop ?? 0;
  });
  const marked = place && html`<mark>${text.slice(place.start, place.end) || " "}</mark>`;
  return html`<div class="backdrop" ref=${element} aria-hidden="true">
    ${place ? [text.slice(0, place.start), marked, text.slice(place.end)] : text}${"\n"}
  </div>`;
}

export function Editor({ text, error, describedBy, onInput, onSubmit, inputRef }) {
  const own = useRef(null);
  const place = error?.position === undefined ? null : placeOf(text, error.position);
  const press = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onSubmit();
    }
  };
  const scrolled = (event) => (event.target.previousSibling.scrollTop = event.target.scrollTop);
  return html`<div class="editor" data-wrong=${error ? "" : null}>
    <${Backdrop} text=${text} place=${place} scroll=${own} />
    <textarea
      id="filter"
      rows="4"
      spellcheck="false"
      autocomplete="off"
      autocapitalize="off"
      aria-describedby=${describedBy}
      aria-invalid=${error ? "true" : "false"}
      value=${text}
      ref=${(element) => ((own.current = element), (inputRef.current = element))}
      placeholder="class = 'QUAKE' and magnitude >= 6"
      onInput=${(event) => onInput(event.target.value)}
      onKeyDown=${press}
      onScroll=${scrolled}
    ></textarea>
  </div>`;
}

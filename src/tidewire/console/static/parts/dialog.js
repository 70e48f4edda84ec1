// A modal dialog of the browser's own: it holds the focus, closes on Escape and gives the focus back.
import { html, useLayoutEffect, useRef } from "../lib/ui.js";
import { Icon } from "./icon.js";

export function Dialog({ isOpen, onClose, title, children }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    if (isOpen && !element.current.open) {
      element.current.showModal();
      element.current.querySelector("[data-first]")?.focus();
    }
    if (!isOpen && element.current.open) element.current.close();
  }, [isOpen]);
  // The browser tells late that a dialog has closed: by then it may be open again, for another reason.
  const closed = () => isOpen && !element.current.open && onClose();
  return html`<dialog ref=${element} aria-label=${title} onClose=${closed}>
    ${
      isOpen &&
      html`<div class="dialog-head">
          <h2>${title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
        </div>
        ${children}`
    }
  </dialog>`;
}

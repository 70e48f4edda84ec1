// Asks for a token, only when the server has asked for one. It stays in this tab, and goes with it.
import { credentials, giveToken } from "../lib/api.js";
import { watchOverlay } from "../lib/overlay-feed.js";
import { useStore } from "../lib/store.js";
import { html } from "../lib/ui.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";

export function TokenDialog() {
  const { isAsked, isWrong } = useStore(credentials);
  const submit = (submission) => {
    submission.preventDefault();
    const token = new FormData(submission.target).get("token").trim();
    if (!token) return;
    giveToken(token);
    watchOverlay();
  };
  return html`<${Dialog} isOpen=${isAsked} onClose=${() => isAsked && giveToken(null)} title="Who are you?">
    <form class="token" onSubmit=${submit}>
      <p id="token-why">
        ${
          isWrong
            ? "The brokers did not accept this token. It may have expired, or may not be for this network."
            : "This network asks for a token. What you may see here follows from it."
        }
        ${" Whoever runs the network gives it to you."}
      </p>
      <label for="token">Token</label>
      <input
        id="token"
        name="token"
        type="password"
        autocomplete="off"
        spellcheck="false"
        required
        data-first
        aria-describedby="token-why"
        aria-invalid=${isWrong ? "true" : null}
      />
      <p class="hint">It is kept in this tab only, until you close it.</p>
      <div class="row end"><button type="submit" class="primary">Go on</button></div>
    </form>
  <//>`;
}

/** Forget the token, if there is one. */
export function TokenMenu() {
  const { hasToken } = useStore(credentials);
  if (!hasToken) return null;
  const forget = () => {
    giveToken(null);
    location.reload();
  };
  return html`<button
    class="quiet"
    type="button"
    onClick=${forget}
    aria-label="Forget the token"
    title="Forget the token"
  >
    <${Icon} name="key" />
  </button>`;
}

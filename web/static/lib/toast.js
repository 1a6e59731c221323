// Short messages about what has just happened, read out by screen readers. An error stays until it is closed.
import { html } from "../vendor/preact.js";
import { createStore, useStore } from "./store.js";

const SHOWN_MS = 6000;
const SHOWN_COUNT = 5;
const toasts = createStore([]);
let lastId = 0;

/**
 * @param {string} message
 * @param {"ok" | "error"} kind
 */
export function toast(message, kind = "ok") {
  const id = ++lastId;
  toasts.set([...toasts.get(), { id, message, kind }].slice(-SHOWN_COUNT));
  if (kind === "ok") setTimeout(() => close(id), SHOWN_MS);
}

const close = (id) => toasts.set(toasts.get().filter((each) => each.id !== id));

/** Where they are shown; once, in the shell. */
export function Toasts() {
  const shown = useStore(toasts);
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${shown.map(
        ({ id, message, kind }) => html`
          <div class="toast ${kind}" key=${id}>
            <span>${kind === "error" ? "Failed: " : ""}${message}</span>
            <button type="button" class="icon" aria-label="Close this message" onClick=${() => close(id)}>✕</button>
          </div>
        `,
      )}
    </div>
  `;
}

// What went wrong, and what helps.
import { html } from "../vendor/preact.js";

/** `note` stands before the message; `retry` is called by a button. */
export function Problem({ error, note, retry }) {
  return html`
    <div class="problem" role="alert">
      <p>${note} <strong>${sentence(error.message)}</strong></p>
      ${error.next && html`<p class="muted">What helps: ${error.next}</p>`}
      ${retry && html`<button type="button" class="small" onClick=${() => retry()}>Try again</button>`}
    </div>
  `;
}

/** A message as a sentence: with a capital letter and a full stop. */
export function sentence(text) {
  if (!text) return "Something failed.";
  const begun = text[0].toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

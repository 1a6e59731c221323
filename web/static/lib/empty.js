// A place where nothing is yet: what it would hold, and the command that makes the first.
import { html } from "../vendor/preact.js";

/** `next` is a command, shown to be copied; children are further ways, such as a button. */
export function Empty({ title, next, children }) {
  return html`
    <div class="empty">
      <p class="empty-title">${title}</p>
      ${next && html`<p class="muted">Next: <code>${next}</code></p>`} ${children}
    </div>
  `;
}

// Where a user logs in.
import { html } from "../vendor/preact.js";

export function Login() {
  return html`<h1>Log in</h1><p>This cluster wants to know who asks.</p>`;
}

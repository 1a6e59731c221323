// Who is logged in.
import { html } from "../vendor/preact.js";

export function Account({ state }) {
  if (state === null || state.user === null) return null;
  return html`<span class="account" title="The user whose rights hold">${state.user}</span>`;
}

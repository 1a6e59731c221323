// Who is logged in, and how to log out.
import { html, useState } from "../vendor/preact.js";
import { del, loadSession, session } from "../lib/api.js";

export function Account({ state }) {
  const [isBusy, setBusy] = useState(false);
  if (state === null || state.user === null) return null;
  const logOut = async () => {
    setBusy(true);
    try {
      session.set(await del("/api/session"));
    } catch {
      await loadSession().catch(() => {}); // the shell says that nobody answers
    }
    setBusy(false);
  };
  return html`
    <span class="account" title="The user whose rights apply">${state.user}</span>
    ${state.wants_login && html`<button type="button" class="small" disabled=${isBusy} onClick=${logOut}>Log out</button>`}
  `;
}

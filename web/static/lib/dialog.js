// A window over the page for one task; the browser keeps the focus inside, and gives it back.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Problem } from "./problem.js";
import { toast } from "./toast.js";

/** `onClose` is called by Escape, the cross, and whoever is inside. */
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog ref=${element} aria-labelledby="dialog-title" onCancel=${onCancel}>
      <header>
        <h2 id="dialog-title">${title}</h2>
        <button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button>
      </header>
      ${children}
    </dialog>
  `;
}

/**
 * A dialog that does one thing: it says what will happen, does it, and shows why it failed.
 * @param {{title: string, action: string, run: () => Promise<any>, done?: string | ((result: any) => string), confirm?: string, isDangerous?: boolean,
 *   onDone?: (result: any) => void, onClose: () => void, children?: any}} given
 *   `done` is told when it has succeeded; `confirm` is a name that has to be typed before
 */
export function ActionDialog({ title, action, run, done, confirm, isDangerous, onDone, onClose, children }) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [typed, setTyped] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const result = await run();
      if (done) toast(typeof done === "function" ? done(result) : done);
      onClose();
      onDone?.(result);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const isBlocked = isBusy || (confirm !== undefined && typed !== confirm);
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form onSubmit=${submit}>
        ${children}
        ${confirm !== undefined &&
        html`<label>Type <code>${confirm}</code> to confirm
          <input value=${typed} autocomplete="off" spellcheck="false" onInput=${({ target }) => setTyped(target.value)} />
        </label>`}
        ${error && html`<${Problem} error=${error} />`}
        <p class="actions">
          <button type="submit" class=${isDangerous ? "danger" : "primary"} disabled=${isBlocked}>${isBusy ? "Working…" : action}</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </p>
      </form>
    </>
  `;
}

/** A button for a change: disabled, with the reason, where the page only reads. */
export function ChangeButton({ session, onClick, children, ...rest }) {
  const reason = session.can_write ? null : "The page only reads: barnabas.web.write.enable=true allows changes.";
  return html`<button type="button" ...${rest} disabled=${Boolean(reason) || rest.disabled} title=${reason ?? rest.title} onClick=${onClick}>${children}</button>`;
}

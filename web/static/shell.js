// What is around every view: navigation, who is logged in, the theme, keys, messages, and what a broken view says.
import { html, Component, useEffect, useRef, useState } from "./vendor/preact.js";
import { loadSession, session, unreachableSince } from "./lib/api.js";
import { Dialog } from "./lib/dialog.js";
import { Time } from "./lib/format.js";
import { BASE, go, match, pageUrl, usePlace } from "./lib/router.js";
import { kept, useStore } from "./lib/store.js";
import { Toasts } from "./lib/toast.js";
import { Account } from "./parts/account.js";
import { Login } from "./views/login.js";
import { NOT_FOUND, PARTS, VIEWS } from "./views/index.js";

const RETRY_MS = 3000;
const THEMES = ["auto", "light", "dark"];

export function Shell() {
  const { path, search } = usePlace();
  const state = useStore(session);
  const [view, params] = viewOf(path);
  const title = view.title(params);
  useTitle(title);
  const help = useKeys();
  const [isMenuOpen, setMenuOpen] = useState(false);
  useEffect(() => setMenuOpen(false), [path]);
  const wantsLogin = state !== null && state.wants_login && state.user === null;
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <${Header} state=${state} onHelp=${help.open} isMenuOpen=${isMenuOpen} onMenu=${() => setMenuOpen(!isMenuOpen)} />
    <${Unreachable} />
    <div class="columns">
      ${!wantsLogin && html`<${Navigation} path=${path} isOpen=${isMenuOpen} />`}
      <main id="main" tabindex="-1">
        ${wantsLogin
          ? html`<${Login} state=${state} />`
          : html`
              <h1>${title}</h1>
              ${state !== null &&
              html`<${Boundary} key=${path}><${view.view} ...${params} search=${search} session=${state} /></>`}
            `}
      </main>
    </div>
    <${Toasts} />
    ${help.isOpen && html`<${Keys} onClose=${help.close} />`}
  `;
}

/** The row of the table that a path belongs to, with the parts of the path. */
function viewOf(path) {
  for (const row of VIEWS) {
    const params = match(row.path, path);
    if (params) return [row, params];
  }
  return [NOT_FOUND, {}];
}

/** The title of the window; after a change of view the focus is on the content, as after loading a page. */
function useTitle(title) {
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · Barnabas`;
    if (!isFirst.current) document.getElementById("main").focus();
    isFirst.current = false;
  }, [title]);
}

function Header({ state, onHelp, isMenuOpen, onMenu }) {
  return html`
    <header class="top">
      <button type="button" class="icon menu" aria-label="Views" aria-expanded=${isMenuOpen} aria-controls="views" onClick=${onMenu}>☰</button>
      <a class="brand" href=${pageUrl("/")}><img src="/static/icon.svg" alt="" width="22" height="22" />Barnabas</a>
      <div class="tools">
        ${state && !state.can_write && html`<span class="tag" title="barnabas.web.write.enable=true allows changes">read-only</span>`}
        <${Theme} />
        <button type="button" class="icon" aria-label="Keys" title="Keys (?)" onClick=${onHelp}>?</button>
        <${Account} state=${state} />
      </div>
    </header>
  `;
}

function Navigation({ path, isOpen }) {
  return html`
    <nav id="views" class="side ${isOpen ? "open" : ""}" aria-label="Views">
      ${PARTS.map((part) => [part, VIEWS.filter((each) => each.nav && (each.part ?? "Cluster") === part)])
        .filter(([, views]) => views.length)
        .map(
          ([part, views]) => html`
            <section key=${part}>
              <h2>${part}</h2>
              <ul>
                ${views.map(
                  (each) => html`
                    <li><a href=${pageUrl(each.path)} aria-current=${isWithin(path, each.path) ? "page" : null}>${each.nav}</a></li>
                  `,
                )}
              </ul>
            </section>
          `,
        )}
    </nav>
  `;
}

const isWithin = (path, base) => (base === "/" ? path === "/" : path === base || path.startsWith(`${base}/`));

function Theme() {
  const [theme, setTheme] = useState(kept.get("theme") ?? "auto");
  const choose = ({ target }) => {
    const next = target.value;
    setTheme(next);
    kept.set("theme", next === "auto" ? null : next);
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
  };
  return html`
    <label class="theme"><span class="visually-hidden">Colours</span>
      <select value=${theme} onChange=${choose}>
        ${THEMES.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
    </label>
  `;
}

/** The server of the page does not answer: says so, and asks until it does. */
function Unreachable() {
  const since = useStore(unreachableSince);
  useEffect(() => {
    if (since === null) return undefined;
    const timer = setInterval(() => loadSession().catch(() => {}), RETRY_MS);
    return () => clearInterval(timer);
  }, [since]);
  if (since === null) return null;
  return html`
    <p class="banner" role="alert">
      The server of this page has not answered since <${Time} ms=${since} />. The page goes on when it does.
    </p>
  `;
}

/** A view that fails says so; the others work. */
class Boundary extends Component {
  constructor() {
    super();
    this.state = { error: null };
  }

  componentDidCatch(error) {
    this.setState({ error });
    console.error(error);
  }

  render({ children }, { error }) {
    if (error === null) return children;
    return html`
      <div class="problem" role="alert">
        <p><strong>This view has failed.</strong> ${String(error.message ?? error)}</p>
        <button type="button" class="small" onClick=${() => this.setState({ error: null })}>Draw it again</button>
      </div>
    `;
  }
}

const KEYS = [
  ["/", "go to the search box"],
  ...VIEWS.filter((each) => each.key).map((each) => [`g ${each.key}`, `go to ${each.nav}`]),
  ["?", "show the keys"],
  ["Arrows", "in a table: the row above or below; in a plot: earlier or later"],
  ["Escape", "close what is open"],
];
const PLACES = Object.fromEntries(VIEWS.filter((each) => each.key).map((each) => [each.key, each.path]));
const GO_MS = 1500;

function useKeys() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    let goUntil = 0;
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "?") setOpen(true);
      else if (event.key === "/") focusSearch(event);
      else if (event.key === "g" && event.timeStamp > goUntil) goUntil = event.timeStamp + GO_MS;
      else if (event.timeStamp <= goUntil && PLACES[event.key]) {
        goUntil = 0;
        go(BASE + PLACES[event.key]);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return { isOpen, open: () => setOpen(true), close: () => setOpen(false) };
}

const isTyping = (element) => element.closest?.("input, textarea, select, dialog") !== null;

function focusSearch(event) {
  const box = document.querySelector("[data-shortcut=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
}

function Keys({ onClose }) {
  return html`
    <${Dialog} title="Keys" onClose=${onClose}>
      <dl class="keys">${KEYS.map(([keys, what]) => html`<dt><kbd>${keys}</kbd></dt><dd>${what}</dd>`)}</dl>
    </>
  `;
}

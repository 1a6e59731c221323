// Where the reader is: the path below /ui and the query string, by the History API. Everything a view shows is in the
// address, so that each view can be sent as a link.
import { createStore, useStore } from "./store.js";
import { useCallback } from "../vendor/preact.js";

export const BASE = "/ui";

const here = () => ({ path: pathOf(location.pathname), search: location.search });
const place = createStore(here());

addEventListener("popstate", () => place.set(here()));

function pathOf(pathname) {
  const path = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return path.replace(/\/+$/, "") || "/";
}

/** An address of the page: `pageUrl("/topics", name)`; each part is encoded. */
export function pageUrl(path, ...parts) {
  return BASE + [path === "/" && parts.length ? "" : path, ...parts.map((part) => encodeURIComponent(part))].join("/");
}

/** Go to an address of the page, which begins with /ui. */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  place.set(here());
}

export const usePlace = () => useStore(place);

/**
 * What the query string holds, and a function that changes some of it; null and "" take a name out.
 * What is typed replaces the address; what is chosen can be undone by the browser's back: `change(changes, {push: true})`.
 * @returns {[Record<string, string>, (changes: Record<string, string | null>, options?: {push?: boolean}) => void]}
 */
export function useQuery() {
  const { search } = usePlace();
  const change = useCallback((changes, { push = false } = {}) => {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    go(location.pathname + (text ? `?${text}` : ""), { replace: !push });
  }, []);
  return [Object.fromEntries(new URLSearchParams(search)), change];
}

/**
 * The parameters of a path in the form of a pattern such as "/topics/:topic"; null when it has another form.
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params = {};
  for (const [index, part] of wanted.entries()) {
    if (!part.startsWith(":")) {
      if (part !== given[index]) return null;
      continue;
    }
    const value = decoded(given[index]);
    if (!value) return null;
    params[part.slice(1)] = value;
  }
  return params;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Links to /ui are followed without loading the page again, unless the reader asks for a new tab. */
export function followLinks(root) {
  root.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}

// Data that stays current: asked again every so often, the old data shown meanwhile.
// Rules: while the tab is hidden nothing is asked; when it is seen again, at once. A failure keeps the data and says since
// when it is old; the next success clears that. One request at a time for each use. What the clock asks for is marked: it does
// not keep the session of a user who has left.
import { html, useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";
import { Problem } from "./problem.js";
import { Time } from "./format.js";

const BY_CLOCK = { "X-Barnabas-Background": "1" };
const NOTHING = { data: null, error: null, reached_at: null };

/**
 * @param {string | null} path what is asked; null asks nothing. Another path begins anew.
 * @param {number} everyMs how long to wait after an answer
 * @param {{keep?: boolean}} options `keep`: show the data of the path before until the new one's are there
 * @returns {{data: any, error: Error | null, reached_at: number | null, isLoading: boolean, refresh: () => Promise<void>}}
 *   `reached_at`: the time of the last success, in ms
 */
export function usePolled(path, everyMs = 10000, { keep = false } = {}) {
  const [state, setState] = useState({ path, ...NOTHING });
  const refreshing = useRef(async () => {});
  useEffect(() => {
    setState((before) => (before.path === path ? before : { ...(keep ? before : NOTHING), path }));
    if (path === null) return undefined;
    const polling = poll(path, everyMs, (outcome) =>
      setState((before) => ({ ...(before.path === path || keep ? before : NOTHING), ...outcome, path })),
    );
    refreshing.current = polling.refresh;
    return polling.stop;
  }, [path, everyMs, keep]);
  const refresh = useCallback(() => refreshing.current(), []);
  const current = state.path === path || keep ? state : NOTHING;
  return { ...current, isLoading: path !== null && current.data === null && current.error === null, refresh };
}

/** Ask for `path` now and every `everyMs`; `tell` gets {data, reached_at, error} of each answer. */
function poll(path, everyMs, tell) {
  let controller = null;
  let timer = null;
  let isStopped = false;
  const ask = async ({ isByClock = false } = {}) => {
    clearTimeout(timer);
    controller?.abort();
    const mine = (controller = new AbortController());
    try {
      const data = await get(path, { signal: mine.signal, headers: isByClock ? BY_CLOCK : {} });
      if (!mine.signal.aborted) tell({ data, error: null, reached_at: Date.now() });
    } catch (error) {
      if (mine.signal.aborted) return;
      tell({ error });
    }
    if (!isStopped && controller === mine && !document.hidden) timer = setTimeout(ask, everyMs, { isByClock: true });
  };
  const seen = () => {
    if (document.hidden) clearTimeout(timer);
    else ask();
  };
  document.addEventListener("visibilitychange", seen);
  ask();
  return {
    refresh: () => ask(),
    stop() {
      isStopped = true;
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(timer);
      controller?.abort();
    },
  };
}

/**
 * The state of polled data around what shows it: loading, failed, or shown with a note since when it is old.
 * `html`<${Polled} of=${topics}>${(data) => ...}</>``
 */
export function Polled({ of, children }) {
  // One element in every state: siblings keep their places when it changes what is in it.
  return html`<div class="polled">${stateOf(of, children)}</div>`;
}

function stateOf(of, children) {
  if (of.data === null) {
    return of.error
      ? html`<${Problem} error=${of.error} retry=${of.refresh} />`
      : html`<p class="loading" role="status">Loading…</p>`;
  }
  const show = Array.isArray(children) ? children[0] : children;
  return html`
    ${of.error && html`<${Problem} error=${of.error} retry=${of.refresh}
      note=${html`Not reached since <${Time} ms=${of.reached_at} />; what follows is from then.`} />`}
    ${show(of.data)}
  `;
}

// The messages that the view shows: a page, or what a search or a follow brings, as long as it runs.
// Rules: another question ends the one before, and its late answers are dropped. A lost connection goes on at the last
// cursor; a message that comes again is dropped. What arrives is drawn ten times a second at most. Bounded: of more than
// SHOWN_COUNT messages those are dropped that have been shown for the longest, and the view says how many.
import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { readEvents } from "../lib/sse.js";
import { keyOf, messagesUrl, modeOf, parametersOf } from "./query.js";

export const SHOWN_COUNT = 2000;
const DRAW_MS = 100;
const RETRY_MS = 1000;
const NOTHING = {
  records: [],
  progress: null,
  error: null,
  message: "",
  cursor: null,
  page: null,
  dropped: 0,
};

/**
 * @param {string} topic
 * @param {URLSearchParams} query
 * @returns what is shown: `status` is "loading", "page", "running", "lost" (it tries again), "paused", "ended", "stopped" or
 *   "failed"; `goOn()` continues at the cursor, `stop()` ends, `older()` and `newer()` turn the page, `again()` begins anew.
 */
export function useMessages(topic, query) {
  const mode = modeOf(query);
  const parameters = parametersOf(query);
  const [state, setState] = useState({ ...NOTHING, status: "loading", mode });
  const running = useRef(null);
  const begin = useCallback(
    (options = {}) => {
      running.current?.abort();
      const mine = (running.current = new AbortController());
      const tell = (change) => {
        if (!mine.signal.aborted) setState(change);
      };
      if (mode === "browse") turn(topic, query, options.cursor, tell, mine.signal);
      else run({ topic, query, mode, cursor: options.cursor, isMore: Boolean(options.isMore), tell, signal: mine.signal });
    },
    [topic, parameters, mode],
  );
  useEffect(() => {
    begin();
    return () => running.current?.abort();
  }, [begin]);
  const stop = useCallback(() => {
    running.current?.abort();
    setState((now) => ({ ...now, status: "stopped", message: "You have stopped it." }));
  }, []);
  return {
    ...state,
    stop,
    again: () => begin(),
    goOn: () => begin({ cursor: state.cursor, isMore: true }),
    older: () => begin({ cursor: state.page?.older }),
    newer: () => begin({ cursor: state.page?.newer }),
  };
}

async function turn(topic, query, cursor, tell, signal) {
  tell((now) => ({ ...NOTHING, records: now.mode === "browse" ? now.records : [], page: now.page, status: "loading", mode: "browse" }));
  try {
    const page = await get(`${messagesUrl(topic)}?${parametersOf(query, { cursor })}`, { signal });
    tell({ ...NOTHING, records: page.records, page, status: "page", mode: "browse", message: page.is_whole ? "" : page.reason });
  } catch (error) {
    if (error.name !== "AbortError") tell({ ...NOTHING, error, status: "failed", mode: "browse" });
  }
}

/** Follow or search until it pauses, ends, fails or is aborted. */
async function run({ topic, query, mode, cursor, isMore, tell, signal }) {
  const found = new Found(mode, tell);
  tell((now) => found.begun(isMore ? now : { ...NOTHING }, cursor ?? null));
  while (!signal.aborted) {
    try {
      const path = `${messagesUrl(topic, mode)}?${parametersOf(query, { cursor: found.cursor })}`;
      await readEvents(path, { signal, onEvent: (event) => found.take(event) });
      if (found.isOver) break;
    } catch (error) {
      if (error.name === "AbortError") break;
      if (error.status >= 400 && error.status < 500) {
        found.failed(error);
        break;
      }
    }
    found.lost();
    await pause(RETRY_MS, signal);
  }
  found.close();
}

/** What one search or follow has found; it tells of it from time to time. */
class Found {
  constructor(mode, tell) {
    this.mode = mode;
    this.tell = tell;
    this.cursor = null;
    this.isOver = false;
    this.keys = new Set();
    this.waiting = [];
    this.partitions = new Map();
    this.changes = {};
    this.timer = null;
  }

  begun(before, cursor) {
    this.cursor = cursor;
    this.keys = new Set(before.records.map(keyOf));
    for (const each of before.progress?.partitions ?? []) this.partitions.set(each.partition, each);
    return { ...before, status: "loading", mode: this.mode, error: null, message: "" };
  }

  take({ type, data, id }) {
    if (type === "hit" || type === "record") this.add(data);
    else if (type === "progress") this.advanced(data, id);
    else if (type === "paused") this.over("paused", data);
    else if (type === "end") this.over("ended", data);
    else if (type === "problem") this.problem(data);
  }

  add(record) {
    const key = keyOf(record);
    if (this.keys.has(key)) return;
    this.keys.add(key);
    if (this.keys.size > 2 * SHOWN_COUNT) this.keys.delete(this.keys.values().next().value);
    this.waiting.push(record);
    this.draw();
  }

  advanced(data, id) {
    for (const each of data.partitions) this.partitions.set(each.partition, each);
    this.cursor = data.cursor ?? (id || this.cursor);
    this.changes.status = "running";
    this.changes.error = null;
    this.changes.progress = { ...data, partitions: [...this.partitions.values()].sort((a, b) => a.partition - b.partition) };
    this.draw();
  }

  over(status, data) {
    this.isOver = true;
    this.cursor = data.cursor ?? this.cursor;
    this.changes = { ...this.changes, status, message: data.message };
    this.draw();
  }

  problem(data) {
    const { message, next = "" } = data.error;
    this.changes.error = { message, next };
    if (data.is_final) {
      this.isOver = true;
      this.cursor = data.cursor ?? this.cursor;
      this.changes.status = "failed";
    }
    this.draw();
  }

  failed(error) {
    this.changes = { ...this.changes, status: "failed", error };
  }

  lost() {
    this.changes.status = "lost";
    this.draw();
  }

  draw() {
    this.timer ??= setTimeout(() => this.flush(), DRAW_MS);
  }

  flush() {
    this.timer = null;
    const [added, changes, cursor] = [this.waiting, this.changes, this.cursor];
    [this.waiting, this.changes] = [[], {}];
    this.tell((now) => {
      const all = this.mode === "follow" ? [...added.reverse(), ...now.records] : [...now.records, ...added];
      const dropped = Math.max(all.length - SHOWN_COUNT, 0);
      const records = this.mode === "follow" ? all.slice(0, SHOWN_COUNT) : all.slice(dropped);
      return { ...now, ...changes, cursor, records, dropped: now.dropped + dropped };
    });
  }

  close() {
    clearTimeout(this.timer);
    this.flush();
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

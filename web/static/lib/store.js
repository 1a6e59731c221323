// A value that many components show: `createStore` holds it, `useStore` draws again when it changes.
import { useEffect, useState } from "../vendor/preact.js";

/**
 * @template T
 * @param {T} initial
 * @returns {{get: () => T, set: (next: T) => void, subscribe: (listener: () => void) => () => void}}
 */
export function createStore(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of a store; the component is drawn again when it changes. */
export function useStore(store) {
  const [, draw] = useState(null);
  useEffect(() => {
    const changed = () => draw({});
    const unsubscribe = store.subscribe(changed);
    changed();
    return unsubscribe;
  }, [store]);
  return store.get();
}

/** What the browser keeps of a reader's choices; one that keeps nothing forgets them with the page. */
export const kept = {
  get(name) {
    try {
      return localStorage.getItem(`barnabas.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`barnabas.${name}`);
      else localStorage.setItem(`barnabas.${name}`, value);
    } catch {
      // nothing is kept: the choice holds until the page is closed
    }
  },
};

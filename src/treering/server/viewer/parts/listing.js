/** The listing as a list that is scrolled: rows are fetched by range; what was fetched long ago is dropped. */

import { useCallback, useEffect, useRef, useState } from "../vendor/preact.js";

const BLOCK = 200;
const BLOCKS_MAX = 12;
const TYPED_MS = 120;
const REFRESH_MS = 1000;
const HITS = 50;

/**
 * The rows of a filter, by their place.
 * @param {import("./app.js").App} app
 * @param {object} filter The server's query.
 * @param {{ held: boolean, version: number }} how While `held`, rows stay where they are, and `moved` says that they
 *   would not.
 */
export function useWindow(app, filter, { held, version }) {
  const key = JSON.stringify(filter);
  const [state, setState] = useState({ total: null, everything: null, counts: null, error: null });
  const blocks = useRef(new Map());
  const asked = useRef(new Map());
  const wanted = useRef([0, 0]);
  const [moved, setMoved] = useState(false);
  const dirty = useRef(version);
  const { directory } = app;

  const fetchBlock = useCallback(
    (number, fresh = false) => {
      if (asked.current.has(number) || (blocks.current.has(number) && !fresh)) return;
      const control = new AbortController();
      asked.current.set(number, control);
      const query = {
        ...filter,
        with: "state",
        order: "modified",
        start: number * BLOCK,
        limit: BLOCK,
        count: number === 0,
      };
      app.server.get("sessions", { query, signal: control.signal }).then(
        (page) => {
          if (asked.current.get(number) !== control) return;
          asked.current.delete(number);
          directory.put(page.items);
          blocks.current.delete(number);
          blocks.current.set(number, page.items.map((row) => row.id));
          while (blocks.current.size > BLOCKS_MAX) blocks.current.delete(blocks.current.keys().next().value);
          // all are counted once, with the first rows
          setState((before) => ({
            total: page.total ?? before.total,
            everything: page.counts
              ? Object.values(page.counts).reduce((sum, each) => sum + each, 0)
              : before.everything,
            counts: page.counts ?? before.counts,
            error: null,
          }));
        },
        (error) => {
          if (asked.current.get(number) !== control) return;
          asked.current.delete(number);
          setState((before) => ({ ...before, error }));
        },
      );
    },
    [key],
  );

  const need = useCallback(
    (first, last) => {
      wanted.current = [first, last];
      for (let number = Math.floor(first / BLOCK); number <= Math.floor(Math.max(first, last - 1) / BLOCK); number += 1)
        fetchBlock(number);
    },
    [fetchBlock],
  );

  const refresh = useCallback(() => {
    setMoved(false);
    dirty.current = directory.version;
    const [first, last] = wanted.current;
    const shown = new Set([0]);
    for (let number = Math.floor(first / BLOCK); number <= Math.floor(Math.max(first, last - 1) / BLOCK); number += 1)
      shown.add(number);
    for (const number of [...blocks.current.keys()]) if (!shown.has(number)) blocks.current.delete(number);
    for (const number of shown) fetchBlock(number, true);
  }, [fetchBlock]);

  useEffect(() => {
    const timer = setTimeout(() => {
      for (const control of asked.current.values()) control.abort();
      asked.current = new Map();
      blocks.current = new Map();
      wanted.current = [0, 0];
      setMoved(false);
      dirty.current = directory.version;
      fetchBlock(0);
    }, state.total === null ? 0 : TYPED_MS);
    return () => clearTimeout(timer);
  }, [key, directory.epoch]);

  // what changed is drawn at once; where it stands is asked again, unless somebody is reading
  useEffect(() => {
    if (version === dirty.current) return undefined;
    if (held) {
      setMoved(true);
      return undefined;
    }
    const timer = setTimeout(refresh, REFRESH_MS);
    return () => clearTimeout(timer);
  }, [version !== dirty.current, held, refresh, state]);

  useEffect(() => {
    if (state.error?.name !== "Offline") return undefined;
    const timer = setTimeout(refresh, 3000);
    return () => clearTimeout(timer);
  }, [state.error, refresh]);

  const at = (place) => {
    const id = blocks.current.get(Math.floor(place / BLOCK))?.[place % BLOCK];
    return id === undefined ? null : (directory.rows.get(id) ?? null);
  };
  return { ...state, at, need, refresh, moved };
}

/** The entries that hold some words, page by page. */
export function useFound(app, text, filter) {
  const [state, setState] = useState({ hits: [], next: null, loading: false, error: null });
  const [times, setTimes] = useState(0);
  const query = { q: text, project: filter.project, since: filter.since, limit: HITS };
  const key = JSON.stringify(query);
  const newest = useRef(key);
  newest.current = key;
  useEffect(() => {
    if (!/[^\s"]/.test(text)) {
      setState({ hits: [], next: null, loading: false, error: null });
      return undefined;
    }
    const control = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    const timer = setTimeout(() => {
      app.server.get("search", { query, signal: control.signal }).then(
        (page) =>
          control.signal.aborted || setState({ hits: page.items, next: page.next, loading: false, error: null }),
        (error) => control.signal.aborted || setState({ hits: [], next: null, loading: false, error }),
      );
    }, TYPED_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [key, times]);
  const next = () => {
    if (state.loading || !state.next) return;
    setState((before) => ({ ...before, loading: true }));
    app.server.get("search", { query: { ...query, page: state.next } }).then(
      (page) =>
        newest.current === key &&
        setState((before) => ({ hits: [...before.hits, ...page.items], next: page.next, loading: false, error: null })),
      (error) => newest.current === key && setState((before) => ({ ...before, loading: false, error })),
    );
  };
  return { ...state, more: Boolean(state.next), next, retry: () => setTimes((before) => before + 1) };
}

/** The addresses of the pages: what each is made of, and which page an address names. */

const encode = encodeURIComponent;

function withQuery(path, query) {
  const shown = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") shown.set(name, String(value));
  }
  const text = shown.toString();
  return text ? `${path}?${text}` : path;
}

/** Builders of addresses; ids are encoded. They begin with "/": `app.href` makes a link of one. */
export const path = {
  live: (query) => withQuery("/", query),
  sessions: (query) => withQuery("/sessions", query),
  usage: (query) => withQuery("/usage", query),
  session: (id) => `/s/${encode(id)}`,
  entry: (id, entry) => `/s/${encode(id)}/e/${encode(entry)}`,
  tree: (id) => `/s/${encode(id)}/tree`,
  saw: (id, entry) => `/s/${encode(id)}/saw/${encode(entry)}`,
  compare: (id, a, b) => `/s/${encode(id)}/compare/${encode(a)}/${encode(b)}`,
};

const PAGES = [
  ["live", ""],
  ["sessions", "sessions"],
  ["usage", "usage"],
  ["session", "s/:session"],
  ["session", "s/:session/e/:entry"],
  ["tree", "s/:session/tree"],
  ["saw", "s/:session/saw/:entry"],
  ["compare", "s/:session/compare/:a/:b"],
].map(([name, pattern]) => [name, pattern === "" ? [] : pattern.split("/")]);

/**
 * Which page an address names.
 * @param {string} pathname The path below the base, with "/" before it.
 * @returns {{ name: string, params: Record<string, string> } | null} null if there is none
 */
export function match(pathname) {
  const segments = pathname.split("/").filter((segment) => segment !== "");
  for (const [name, pattern] of PAGES) {
    if (pattern.length !== segments.length) continue;
    const params = {};
    const fits = pattern.every((part, place) => {
      if (!part.startsWith(":")) return part === segments[place];
      try {
        params[part.slice(1)] = decodeURIComponent(segments[place]);
        return true;
      } catch {
        return false; // a "%" that encodes nothing
      }
    });
    if (fits) return { name, params };
  }
  return null;
}

/** The viewer's shell: the header line, the page that the address names, words at the bottom, keys. */

import { connect, signIn } from "./client.js";
import { App, AppContext, useConnection } from "./parts/app.js";
import { useQueryField } from "./parts/filter.js";
import { Icon, Mark } from "./parts/icons.js";
import { KeysDialog, useKeys } from "./parts/keys.js";
import { Empty, Failure } from "./parts/notices.js";
import { path } from "./parts/paths.js";
import { clock, zone } from "./parts/time.js";
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

const LOADERS = {
  live: () => import("./pages/live.js"),
  sessions: () => import("./pages/sessions.js"),
  session: () => import("./pages/session.js"),
  tree: () => import("./pages/tree.js"),
  compare: () => import("./pages/compare.js"),
  saw: () => import("./pages/saw.js"),
  usage: () => import("./pages/usage.js"),
};
const THEMES = { auto: "as the system", light: "light", dark: "dark" };
const loaded = new Map();

/** The whole window. */
function Shell({ app }) {
  const [, update] = useState(0);
  const [help, setHelp] = useState(false);
  useEffect(() => app.onChange(() => update((beat) => beat + 1)), [app]);
  const search = useRef(null);
  useKeys(
    [
      {
        keys: "/",
        label: "search",
        run: () => (search.current?.offsetParent ? search.current.focus() : app.navigate("/sessions?find=1")),
      },
      { keys: "?", label: "all keys", run: () => setHelp(true) },
    ],
    { scope: "Everywhere" },
  );
  const { name, params, query } = app.route;
  return html`<${AppContext.Provider} value=${app}>
    <a class="skip" href=${location.href.replace(/#.*$/, "") + "#main"} onClick=${skip}>To the content</a>
    <header class="head">
      <a class="home" href="./" aria-label="treering: live agents">
        <${Mark} /><span aria-hidden="true">treering</span>
      </a>
      <nav aria-label="Pages">
        ${[["live", "Live"], ["sessions", "Sessions"], ...(app.showsPrograms ? [] : [["usage", "Usage"]])].map(
          ([page, word]) => html`<a key=${page} href=${app.href(path[page]())}
            aria-current=${page === name ? "page" : undefined}>
            ${word}
          </a>`,
        )}
      </nav>
      <${Search} app=${app} field=${search} />
      <div class="tools">
        <a class="button quiet find" href=${app.href("/sessions?find=1")} aria-label="Search">
          <${Icon} name="search" />
        </a>
        <${Connection} />
        <${Theme} />
        <button class="button quiet keys-button" type="button" aria-label="Keys" title="Keys (?)"
          onClick=${() => setHelp(true)}>
          ?
        </button>
      </div>
    </header>
    <main id="main" tabindex="-1">
      <${Page} key=${name === "session" || name === "tree" ? `${name}/${params.session}` : name} name=${name}
        params=${params} query=${query} app=${app} />
    </main>
    <div class="toasts">
      ${app.toasts.map(
        (toast) => html`<div key=${toast.id} class=${`toast is-${toast.kind}`}
          role=${toast.kind === "bad" ? "alert" : "status"}>
          <span>${toast.text}</span>
          ${toast.action && html`<button class="button" type="button"
            onClick=${() => (app.closeToast(toast.id), toast.action.run())}>
            ${toast.action.label}
          </button>`}
          ${toast.kind === "bad" && html`<button class="button" type="button" onClick=${() => app.closeToast(toast.id)}>
            Close
          </button>`}
        </div>`,
      )}
    </div>
    <p class="sr" role="status">${app.said}</p>
    ${help && html`<${KeysDialog} onClose=${() => setHelp(false)} />`}
  <//>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

/** The one search field: typing goes to the sessions, and searches there as one types. */
function Search({ app, field }) {
  const { name } = app.route;
  useQueryField(field);
  const typed = (event) => {
    const text = event.currentTarget.value;
    if (name === "sessions") app.setQuery({ q: text, find: null });
    else if (text) app.navigate(path.sessions({ q: text }));
  };
  const press = (event) => {
    if (event.key === "Escape") {
      event.currentTarget.value = "";
      if (name === "sessions") app.setQuery({ q: null });
      event.currentTarget.blur();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      document.dispatchEvent(new CustomEvent("treering:to-list", { detail: { open: event.key === "Enter" } }));
    }
  };
  return html`<div class="search searching" role="search">
    <${Icon} name="search" />
    <input class="field" ref=${field} type="search" aria-label=${app.searching} placeholder=${app.searching}
      onInput=${typed} onKeyDown=${press} autocomplete="off" spellcheck=${false} enterkeyhint="search" />
    <kbd aria-hidden="true">/</kbd>
  </div>`;
}

/** Whether the page hears from the server, and since when not. */
function Connection() {
  const { state, since } = useConnection();
  const words = { live: "live", connecting: "connecting", lost: `no connection since ${clock(since, true)}` }[state];
  return html`<span class=${`connection is-${state}`} title=${`Times are in ${zone()}`}>
    <${Icon} name="idle" hollow=${state !== "live"} /><span class="words">${words}</span>
  </span>`;
}

/** The switch of the theme: as the system, light, dark. */
function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  const turn = () => {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(theme) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("treering.theme", next);
    } catch {
      // storage is blocked: the choice holds until the tab is closed
    }
    setTheme(next);
  };
  const label = `Theme: ${THEMES[theme]}`;
  return html`<button class="button quiet" type="button" aria-label=${label} title=${label} onClick=${turn}>
    <${Icon} name="theme" />
  </button>`;
}

/** The page that the address names, loaded at its first visit. */
function Page({ name, params, query, app }) {
  const [, update] = useState(0);
  const [failed, setFailed] = useState(null);
  const [broken, reset] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    if (!LOADERS[name] || loaded.has(name)) return;
    LOADERS[name]().then(
      (module) => {
        loaded.set(name, module.default);
        update((beat) => beat + 1);
      },
      (error) => setFailed(error),
    );
  }, [name]);
  const Drawn = loaded.get(name);
  useLayoutEffect(() => {
    if (!Drawn || app.restoring === undefined) return;
    scrollTo(0, app.restoring);
    app.restoring = undefined;
  });
  if (app.refused) return html`<${Refused} error=${app.refused} app=${app} />`;
  if (!LOADERS[name]) return html`<${Empty} title="There is no such page"><a href="./">To the live agents</a><//>`;
  if (failed) {
    const reload = html`<button class="button" type="button" onClick=${() => location.reload()}>Reload</button>`;
    return html`<${Empty} title="The server was updated" action=${reload}>This page is of the version before.<//>`;
  }
  if (broken) return html`<${Failure} what="This page has a fault" error=${broken} retry=${reset} />`;
  return Drawn ? html`<${Drawn} params=${params} query=${query} app=${app} />` : null;
}

/** What somebody without a token sees. */
function Refused({ error, app }) {
  if (error.status !== 401 && error.status !== 403) return html`
    <${Failure} error=${error} retry=${() => location.reload()} />
  `;
  return html`<div>
    <${Empty} title="These pages need a token" command="treering serve ROOT --open">
      ${error.detail ?? error.message}
    <//>
    <${TokenField} app=${app} />
  </div>`;
}

/** A token signs the browser in as a link with one does. */
function TokenField({ app }) {
  const [problem, setProblem] = useState(null);
  const [sending, setSending] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    setSending(true);
    try {
      await signIn(app.server, new FormData(event.currentTarget).get("token").trim());
      location.reload();
    } catch (error) {
      setProblem(error);
      setSending(false);
    }
  };
  return html`<form class="token-form" onSubmit=${send}>
    <label class="named">
      Token
      <input class="field mono" name="token" type="password" required autocomplete="off" spellcheck=${false}
        aria-describedby=${problem ? "token-problem" : undefined} />
    </label>
    <button class="button main" type="submit" disabled=${sending}>Sign in</button>
    ${problem && html`<p id="token-problem" class="is-bad" role="alert">${problem.detail ?? problem.message}</p>`}
  </form>`;
}

async function start() {
  const server = connect(document.baseURI);
  const app = new App(server);
  history.scrollRestoration = "manual";
  addEventListener("popstate", () => {
    app.restoring = app.memory.get("window") ?? 0;
    app.changed();
  });
  addEventListener("scroll", () => app.memory.set("window", scrollY), { passive: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (
      !link ||
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin || link.hash) return;
    const to = app.inside(link);
    if (to === null) return;
    event.preventDefault();
    app.navigate(to);
  });
  try {
    await signIn(server);
  } catch (error) {
    app.refused = error;
  }
  app.directory.open();
  render(html`<${Shell} app=${app} />`, document.getElementById("app"));
  const ask = async () => {
    try {
      app.me = await server.get("/v1");
      app.refused = null;
    } catch (error) {
      if (error.status) app.refused = error;
      else setTimeout(ask, 2000);
    }
    app.changed();
  };
  await ask();
}

start();

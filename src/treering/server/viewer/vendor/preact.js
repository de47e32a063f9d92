/**
 * The parts of preact that pages use, under one name, with `html` for templates.
 *
 * Beside this file, as published: preact-core.js is `dist/preact.mjs` of preact 11.2.0, preact-hooks.js is
 * `hooks/dist/hooks.mjs` of the same with "preact" replaced by "./preact-core.js", htm.js is `dist/htm.mjs` of htm 3.1.1.
 */
import { h } from "./preact-core.js";
import htm from "./htm.js";

export * from "./preact-core.js";
export * from "./preact-hooks.js";

/** A tagged template that makes elements: html`<p class="soft">${text}</p>`. */
export const html = htm.bind(h);

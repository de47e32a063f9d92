/** What went wrong, on a line of its own: an error that the session tells, or a body that could not be read. */

import { h } from "../vendor/preact.js";
import { Icon } from "./icons.js";
import { signs } from "./signs.js";

/**
 * An error of a message.
 * @param {{text: string}} props
 */
export function ErrorLine({ text }) {
  return h(
    "p",
    { class: "failure-line" },
    h(Icon, { name: "error" }),
    h("b", null, "error"),
    " ",
    h("span", { dir: "auto" }, signs(text)),
  );
}

/**
 * A body that could not be read, and a button that tries again.
 * @param {{failure: Error, retry: () => void}} props
 */
export function NotRead({ failure, retry }) {
  return h(
    "p",
    { class: "failure-line" },
    signs(failure.message),
    " ",
    h("button", { class: "button quiet", type: "button", onClick: retry }, "Try again"),
  );
}

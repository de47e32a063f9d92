/** A button with a menu: the browser's popover for light dismissal, arrow keys and typing inside. */

import { html, useId, useRef } from "../vendor/preact.js";

/**
 * A menu behind a button.
 * @param {{ label: unknown, name?: string, quiet?: boolean, items: { label: string, note?: string, run?: () => void,
 *   href?: string, checked?: boolean, disabled?: boolean, reason?: string, bad?: boolean,
 *   download?: string }[] }} props
 *   `name` is the button's name if its label is an icon; `chip` draws the button as a chip. A disabled item says its
 *   reason.
 */
export function Menu({ label, name, items, quiet = true, chip = null }) {
  const box = useRef(null);
  const button = useRef(null);
  const id = useId();
  const all = () => [...box.current.querySelectorAll("[role^=menuitem]")];

  const place = (event) => {
    if (event.newState !== "open") return;
    const at = button.current.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = box.current;
    const left = Math.max(8, Math.min(at.left, innerWidth - width - 8));
    const below = at.bottom + 4 + height <= innerHeight;
    Object.assign(box.current.style, {
      left: `${left}px`,
      top: `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`,
    });
    all()[0]?.focus();
  };
  const press = (event) => {
    const shown = all();
    const at = shown.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1 };
    if (event.key in steps) shown[(steps[event.key] + shown.length) % shown.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") {
      box.current.hidePopover();
      button.current.focus();
    } else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && event.key !== " ") {
      const letter = event.key.toLowerCase();
      const order = [...shown.slice(at + 1), ...shown.slice(0, at + 1)];
      order.find((each) => each.textContent.trim().toLowerCase().startsWith(letter))?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (item) => (event) => {
    if (item.disabled) {
      event.preventDefault();
      return;
    }
    box.current.hidePopover();
    button.current.focus();
    item.run?.();
  };
  return html`<span class="menu">
    <button ref=${button} type="button" class=${chip === null ? `button${quiet ? " quiet" : ""}` : `chip ${chip}`}
      aria-haspopup="menu" aria-label=${name} popovertarget=${id}>
      ${label}
    </button>
    <div ref=${box} id=${id} popover="auto" role="menu" aria-label=${name ?? String(label)} onToggle=${place}
      onKeyDown=${press}>
      ${items.map((item) => {
        const role = item.checked === undefined ? "menuitem" : "menuitemradio";
        const inside = html`
          <span>${item.label}</span>
          ${(item.reason ?? item.note) && html`<span>${item.disabled ? item.reason : item.note}</span>`}
        `;
        return item.href && !item.disabled
          ? html`<a key=${item.label} role=${role} tabindex="-1" href=${item.href} download=${item.download}
            onClick=${choose(item)}>
            ${inside}
          </a>`
          : html`<button key=${item.label} type="button" role=${role} tabindex="-1"
            class=${item.bad ? "is-bad" : undefined} aria-checked=${item.checked}
            aria-disabled=${item.disabled ? "true" : undefined} onClick=${choose(item)}>
            ${inside}
          </button>`;
      })}
    </div>
  </span>`;
}

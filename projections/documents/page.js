"use strict";
(() => {
  const KEY = "treering.details";
  const button = document.getElementById("toggle");
  const all = document.querySelectorAll("main details");

  // Some browsers have no memory for pages that were opened from a file.
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const remember = (state) => { try { localStorage.setItem(KEY, state); } catch { /* it works without */ } };

  const show = (open) => {
    for (const each of all) each.open = open;
    button.textContent = open ? "Collapse all" : "Expand all";
    button.dataset.next = open ? "closed" : "open";
  };

  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let each = target.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    target.scrollIntoView();
  };

  button.dataset.next = "open";
  button.hidden = all.length === 0;
  button.addEventListener("click", () => {
    const next = button.dataset.next;
    show(next === "open");
    remember(next);
  });
  if (remembered()) show(remembered() === "open");
  window.addEventListener("hashchange", reveal);
  reveal();

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...all].filter((each) => !each.open);
    for (const each of closed) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
})();

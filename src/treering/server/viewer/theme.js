// Sets the chosen theme before the first paint: a classic script in the head, since a module runs too late.
(() => {
  try {
    const theme = localStorage.getItem("treering.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // storage is blocked: the system's theme holds
  }
})();

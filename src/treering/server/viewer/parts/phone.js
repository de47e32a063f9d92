// Whether the page is as narrow as a phone, where the layout is another one and not only its style.

import { useEffect, useState } from "../vendor/preact.js";

const NARROW = "(max-width: 56rem)";

/** Whether the window is narrow; redraws the component when that changes. */
export function usePhone() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const list = matchMedia(NARROW);
    const changed = () => setNarrow(list.matches);
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, []);
  return narrow;
}

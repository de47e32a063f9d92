/** What was typed and not yet accepted, kept in the browser by session. */

const PREFIX = "treering.draft.";

/** The draft of a session: `{ text, below }`. */
export function readDraft(session) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + session)) ?? { text: "", below: null };
  } catch {
    return { text: "", below: null }; // a browser without storage keeps the draft only as long as the page
  }
}

/** Keep a draft, or forget an empty one. */
export function keepDraft(session, draft) {
  try {
    if (draft.text || draft.below) localStorage.setItem(PREFIX + session, JSON.stringify(draft));
    else localStorage.removeItem(PREFIX + session);
  } catch {
    /* see above */
  }
}

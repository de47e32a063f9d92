/** The viewer: for now, a word that it is there. */
import { html, render } from "./vendor/preact.js";

render(html`<p>treering</p>`, document.getElementById("main"));

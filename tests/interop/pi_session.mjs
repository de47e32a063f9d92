// Runs the real pi on one session file: carries out the calls given on standard input, then prints what pi shows.
//
//     node pi_session.mjs <node_modules> open <file>           < '[["appendMessage", {...}], ...]'
//     node pi_session.mjs <node_modules> create <cwd> <folder> < '[...]'

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, how, ...where] = process.argv.slice(2);
const file = join(modules, "@mariozechner", "pi-coding-agent", "dist", "core", "session-manager.js");
const { SessionManager } = await import(pathToFileURL(file).href);

const results_ = [];
const session = SessionManager[how](...where);
const results = JSON.parse(readFileSync(0, "utf8")).map(([call, ...given]) => {
    // "$n" stands for what the n-th call has returned
    const actual = given.map((each) => (typeof each === "string" && /^\$\d+$/.test(each) ? results_[each.slice(1)] : each));
    const result = session[call](...actual) ?? null;
    results_.push(result);
    return result;
});

const nodes = [];
const waiting = session.getTree().reverse();
while (waiting.length) {
    const { entry, children, label } = waiting.pop();
    nodes.push({ id: entry.id, parentId: entry.parentId, type: entry.type, label: label ?? null });
    waiting.push(...children.slice().reverse());
}
console.log(JSON.stringify({
    file: session.getSessionFile(),
    header: session.getHeader(),
    results,
    context: session.buildSessionContext(),
    leaf: session.getLeafId(),
    name: session.getSessionName() ?? null,
    entries: session.getEntries(),
    path: session.getBranch().map((entry) => entry.id),
    nodes,
}));

// What a page sees of a session by the client of AG-UI, whose verifier refuses events out of order; printed as JSON.
//
//     node ag_ui_page.mjs NODE_MODULES URL
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const { HttpAgent } = await import(pathToFileURL(`${modules}/@ag-ui/client/dist/index.mjs`));
console.warn = (...words) => { throw new Error(`the client warns: ${words.join(" ")}`); };

const shown = (agent) => agent.messages.map(({ id, role, content, toolCalls, toolCallId }) => (
  { id, role, content, calls: (toolCalls ?? []).map((call) => [call.id, call.function.name, call.function.arguments]), toolCallId }
));
const seen = {};

async function run(name, agent, subscriber = {}) {
  const types = [];
  const onEvent = ({ event }) => { types.push(event.type); };
  await agent.runAgent({}, { onEvent, ...subscriber });
  seen[name] = { types, messages: shown(agent), state: agent.state };
}

const agent = new HttpAgent({ url, threadId: "parser" });
await run("history", agent);

agent.addMessage({ id: "mine", role: "user", content: "Why does it time out?" });
await run("talked", agent);

agent.addMessage({ id: "again", role: "user", content: "Tell me a story." });
let pieces = 0;
await run("broken", agent, { onTextMessageContentEvent: () => { pieces += 1; if (pieces === 2) agent.abortRun(); } });
await run("resumed", agent);

await run("fresh", new HttpAgent({ url, threadId: "parser" }));
console.log(JSON.stringify(seen));

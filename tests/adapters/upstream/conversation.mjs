// A conversation of the JavaScript Agents SDK, whose session is a server's: node conversation.mjs SERVER TOKEN MODEL
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MODULES}/`);
const { Agent, OpenAIResponsesModel, OpenAIConversationsSession, run, setTracingDisabled, tool } =
  require("@openai/agents");
const OpenAI = require("openai").default;
const { z } = require("zod");

const [server, token, modelAt] = process.argv.slice(2);
setTracingDisabled(true);
const client = new OpenAI({ baseURL: `${server}/openai/v1`, apiKey: token });
const model = new OpenAIResponsesModel(new OpenAI({ baseURL: modelAt, apiKey: "k", maxRetries: 0 }), "any");
const weather = tool({
  name: "weather",
  description: "Tell the weather.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `Rain in ${city}`,
});
const agent = new Agent({ name: "front", model, tools: [weather] });
const session = new OpenAIConversationsSession({ client });

async function said(words) {
  const result = await run(agent, words, { session, stream: true });
  for await (const _ of result);
  await result.completed;
  return result.finalOutput;
}

const answers = [await said("What is it like in Porto?"), await said("And tomorrow?")];
const items = await session.getItems();
const latest = await session.getItems(2);
const popped = await session.popItem();
const left = (await session.getItems()).length;
const id = await session.getSessionId();
let missing = "";
try {
  await client.conversations.items.retrieve("msg_nobody", { conversation_id: id });
} catch (error) {
  missing = error.constructor.name;
}
const asked = await client.conversations.items.list(id, { limit: 2, include: ["reasoning.encrypted_content"] });
const pages = [];
for await (const item of asked) pages.push(item.id);
await client.conversations.update(id, { metadata: { seen: "yes" } });
const { metadata } = await client.conversations.retrieve(id);
console.log(JSON.stringify({ answers, items, latest, popped, left, id, missing, pages, metadata }));

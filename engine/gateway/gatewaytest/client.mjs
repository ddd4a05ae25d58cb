// Runs the npm package openai against a gateway. Arguments come by the
// environment; the first failed expectation ends it with status 1.
import OpenAI from "openai";
import assert from "node:assert/strict";

const { BASE_URL, API_KEY, MODEL, QUESTION, SCHEMA } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
const schema = JSON.parse(SCHEMA);
const ask = (more) => ({
  model: MODEL, messages: [{ role: "user", content: QUESTION }], temperature: 0, max_completion_tokens: 48, ...more,
});
const forecast = (text) => {
  const f = JSON.parse(text);
  assert.deepEqual(Object.keys(f).sort(), ["city", "days"]);
  assert.equal(typeof f.city, "string");
  assert.ok(Number.isInteger(f.days) && f.days >= 1 && f.days <= 5);
};

const models = await client.models.list();
assert.equal(models.data[0].id, MODEL);

const whole = await client.chat.completions.create(ask());
const text = whole.choices[0].message.content;
assert.ok(text.length > 0);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

let streamed = "", usage = null, finish = null;
for await (const c of await client.chat.completions.create(ask({ stream: true, stream_options: { include_usage: true } }))) {
  streamed += c.choices[0]?.delta?.content ?? "";
  finish = c.choices[0]?.finish_reason ?? finish;
  usage = c.usage ?? usage;
}
assert.equal(streamed, text);
assert.equal(finish, whole.choices[0].finish_reason);
assert.deepEqual(usage, whole.usage);

const several = await client.chat.completions.create(ask({ n: 2, logprobs: true, top_logprobs: 2 }));
assert.equal(several.choices.length, 2);
for (const c of several.choices) {
  assert.equal(Buffer.from(c.logprobs.content.flatMap((l) => l.bytes)).toString(), c.message.content);
  assert.equal(c.logprobs.content[0].top_logprobs.length, 2);
}

const tools = [{ type: "function", function: { name: "get_weather", description: "The weather of a city", parameters: schema, strict: true } }];
const called = ask({ tools, tool_choice: "required", parallel_tool_calls: false, max_completion_tokens: 200 });
const call = (await client.chat.completions.create(called)).choices[0];
assert.equal(call.finish_reason, "tool_calls");
assert.equal(call.message.tool_calls[0].function.name, "get_weather");
forecast(call.message.tool_calls[0].function.arguments);

// The client's own helper puts streamed deltas together and checks their order.
const runner = client.chat.completions.stream(called);
const final = await runner.finalChatCompletion();
forecast(final.choices[0].message.tool_calls[0].function.arguments);

const format = { type: "json_schema", json_schema: { name: "forecast", strict: true, schema } };
const parsed = await client.chat.completions.parse(ask({ response_format: format, max_completion_tokens: 200 }));
forecast(parsed.choices[0].message.content);

// The tool's answer goes back in the next turn.
const next = await client.chat.completions.create(ask({
  messages: [{ role: "user", content: QUESTION }, call.message, { role: "tool", tool_call_id: call.message.tool_calls[0].id, content: "rain" }], tools,
}));
assert.ok(next.choices.length === 1);

await assert.rejects(client.chat.completions.create(ask({ model: "none" })), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found" && e.param === "model");
await assert.rejects(client.embeddings.create({ model: MODEL, input: "x" }), (e) => e instanceof OpenAI.BadRequestError && e.code === "unsupported");

// A client that leaves in the middle.
const left = await client.chat.completions.create(ask({ stream: true, max_completion_tokens: 1500, ignore_eos: true }));
let seen = 0;
for await (const c of left) {
  if ((c.choices[0]?.delta?.content ?? "") !== "" && ++seen >= 3) {
    left.controller.abort();
  }
}
assert.ok(seen >= 3);
console.log("ok");

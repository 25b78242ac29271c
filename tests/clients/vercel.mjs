// Drives Vercel's AI SDK: node vercel.mjs FOLDER API BASE_URL MODEL whole|streamed|hang-up|demanded
// FOLDER is where the packages are installed; API is chat or messages. Prints what was heard as one JSON object.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, api, url, model, how] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(found.resolve(name)));
const { generateText, streamText, tool, jsonSchema } = await load("ai");

async function provider() {
  const options = { baseURL: `${url}/v1`, apiKey: "none" };
  if (api === "messages") return (await load("@ai-sdk/anthropic")).createAnthropic(options);
  return (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "local", ...options });
}

const city = {
  type: "object",
  properties: { city: { type: "string", maxLength: 20 } },
  required: ["city"],
  additionalProperties: false,
};
// Exactly one call.
const demanded = {
  toolChoice: "required",
  providerOptions: { local: { parallel_tool_calls: false }, anthropic: { disableParallelToolUse: true } },
};
const abort = new AbortController();
const request = {
  model: (await provider())(model),
  prompt: "What is the weather?",
  tools: { get_weather: tool({ description: "The weather in a city.", inputSchema: jsonSchema(city) }) },
  maxRetries: 0,
  abortSignal: abort.signal,
  ...(how === "demanded" ? demanded : {}),
};

async function streamed() {
  let failure = null;
  const result = streamText({ ...request, onError: ({ error }) => { failure ??= error; } });
  let first = true;
  for await (const part of result.fullStream) {
    if (how === "hang-up" && part.type === "text-delta" && first) {
      first = false;
      abort.abort();
    }
  }
  if (failure) throw failure;
  if (how === "hang-up") return { hungUp: !first };
  return heard(await result.text, await result.reasoningText, await result.toolCalls, await result.finishReason);
}

function heard(text, reasoning, calls, finish) {
  return { text, reasoning: reasoning ?? "", calls: calls.map((call) => [call.toolName, call.input]), finish };
}

async function whole() {
  const result = await generateText(request);
  return heard(result.text, result.reasoningText, result.toolCalls, result.finishReason);
}

try {
  console.log(JSON.stringify(await (how === "whole" ? whole() : streamed())));
} catch (error) {
  const message = typeof error === "string" ? error : (error?.message ?? JSON.stringify(error));
  console.log(JSON.stringify({ error: message }));
}

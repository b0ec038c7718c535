// Bodies of responses on their way out, counted until they end (WV-09). Knows neither Version nor route.

// What the engine shows of a stream to those who inspect it: how many bytes are left, undefined when it does not know.
const LENGTH = Object.getOwnPropertySymbols(ReadableStream.prototype).find((each) => each.description === "length");
const SMALL_BYTES = 64 * 1024;

/**
 * The response as it goes on; `count` is called with 1 and, when its body has ended or broken, with -1. Bytes pass below
 * JavaScript, as they come. A small body whose length is known passes as it is: it is whole already. So does one with a
 * content coding, which could not be read here without undoing the coding.
 */
export function counted(response, count) {
  const body = response.body;
  if (body === null) return response;
  const length = body[LENGTH];
  if (length <= SMALL_BYTES || response.headers.has("content-encoding")) return response;
  const { readable, writable } = length === undefined ? new IdentityTransformStream() : new FixedLengthStream(length);
  count(1);
  body.pipeTo(writable).catch(() => {}).then(() => count(-1));
  return new Response(readable, response);
}

// Rewrites one app module so that no import leaves the bundle: static specifiers become the isolate's own names and
// `import(` a call of host/imp.js. Uses a real parser, because a lexer can be talked out of seeing an import.
// Runs in the compiler process only, never beside app code.
import { notFound, resolvePath } from "./resolve.js";

/** Why a module is refused; `reason` is `syntax_error`, `module_not_found` or `unsupported_media_type`. */
export class Refused extends Error {
  constructor(reason, message, specifier, line) {
    super(message);
    this.reason = reason;
    this.specifier = specifier;
    this.line = line;
  }
}

/**
 * The text that runs in place of `source`, with every line at its old number.
 *
 * parse: `parseModule` of meriyah; path: of this module; kinds: Map from path to js | text | data | wasm | other.
 * Throws Refused.
 */
export function rewriteModule(parse, source, path, kinds) {
  const text = withoutHashbang(source);
  const found = findImports(parseOrRefuse(parse, text), text);
  const edits = found.specifiers.map((node) => {
    const target = resolveStatic(node.value, path, kinds, lineAt(text, node.start));
    return { start: node.start, end: node.end, text: JSON.stringify("/app/" + target) };
  });
  if (found.calls.length === 0) return applyEdits(text, edits);
  const name = unusedName(found.names);
  const first = JSON.stringify(path) + ",";
  for (const start of found.calls) {
    edits.push({ start, end: start + "import".length, text: name });
    const inside = openingParenthesis(text, start + "import".length) + 1;
    edits.push({ start: inside, end: inside, text: first });
  }
  // at the end it moves nothing (the last line may be a comment); imp.js is evaluated before any app module: kernel_shared.js
  return applyEdits(text, edits) + `\nimport{$ as ${name}}from"/host/imp.js";`;
}

// A byte order mark is gone after decoding; a hashbang is legal at the very start only, so it becomes a comment.
function withoutHashbang(source) {
  return source.startsWith("#!") ? "//" + source.slice(2) : source;
}

function parseOrRefuse(parse, text) {
  try {
    return parse(text, { ranges: true, webcompat: true, preserveParens: false });
  } catch (error) {
    if (error instanceof RangeError) throw new Refused("syntax_error", "the code is nested too deeply", null, null);
    throw new Refused("syntax_error", error.description ?? error.message, null, error.loc?.start?.line ?? null);
  }
}

// Walks the tree without recursion: `a+b+c+…` is as deep as it is long.
function findImports(tree, text) {
  const found = { specifiers: [], calls: [], names: new Set() };
  const open = [tree];
  while (open.length > 0) {
    const node = open.pop();
    if (Array.isArray(node)) {
      for (const item of node) if (item !== null && typeof item === "object") open.push(item);
      continue;
    }
    if (typeof node.type === "string") visit(node, text, found);
    for (const key in node) {
      const child = node[key];
      if (child !== null && typeof child === "object" && !(child instanceof RegExp)) open.push(child);
    }
  }
  return found;
}

function visit(node, text, found) {
  switch (node.type) {
    case "Identifier":
      found.names.add(node.name);
      break;
    case "ImportExpression":
      found.calls.push(node.start);
      break;
    case "ImportDeclaration":
    case "ExportAllDeclaration":
    case "ExportNamedDeclaration":
      if (!node.source) break;
      if (node.attributes?.length > 0) {
        const line = lineAt(text, node.start);
        throw new Refused("unsupported_media_type", "import attributes are not supported", node.source.value, line);
      }
      found.specifiers.push(node.source);
      break;
  }
}

function resolveStatic(specifier, from, kinds, line) {
  const target = resolvePath(from, specifier);
  const kind = target === null ? undefined : kinds.get(target);
  if (kind === undefined) {
    throw new Refused("module_not_found", notFound(specifier, JSON.stringify(specifier)), specifier, line);
  }
  if (kind === "other") {
    throw new Refused("unsupported_media_type", `${JSON.stringify(specifier)} cannot be imported`, specifier, line);
  }
  return target;
}

function unusedName(names) {
  let name = "__tkImport";
  while (names.has(name)) name += "_";
  return name;
}

// The parenthesis of `import (…)`: only white space and comments can stand before it.
function openingParenthesis(text, from) {
  let at = from;
  while (text[at] !== "(") {
    if (text.startsWith("/*", at)) at = text.indexOf("*/", at) + 2;
    else if (text.startsWith("//", at)) at = lineEnd(text, at);
    else at += 1;
  }
  return at;
}

function lineEnd(text, from) {
  let at = from;
  while (!isLineTerminator(text.charCodeAt(at))) at += 1;
  return at;
}

function isLineTerminator(code) {
  return code === 0x0a || code === 0x0d || code === 0x2028 || code === 0x2029;
}

function lineAt(text, offset) {
  let line = 1;
  for (let at = 0; at < offset; at++) {
    const code = text.charCodeAt(at);
    if (isLineTerminator(code) && !(code === 0x0d && text.charCodeAt(at + 1) === 0x0a)) line += 1;
  }
  return line;
}

function applyEdits(text, edits) {
  edits.sort((a, b) => a.start - b.start || a.end - b.end);
  let out = "";
  let at = 0;
  for (const edit of edits) {
    out += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return out + text.slice(at);
}

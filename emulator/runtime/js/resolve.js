// host/resolve.js: the one resolution rule of module specifiers (MW-11), used by the compiler for static imports and by
// imp.js, beside app code, for dynamic ones. Knows paths only: no bundle, no media type.
import { charCodeAt, slice } from "./prim.js";

const SLASH = 0x2f;
const DOT = 0x2e;

/**
 * The manifest path that `specifier` names in the module at path `from`, or null where the contract refuses the form.
 * Nothing is decoded, guessed or folded; that the path is in the bundle is the caller's to check.
 */
export function resolvePath(from, specifier) {
  const absolute = charCodeAt(specifier, 0) === SLASH;
  if (!absolute && !isRelative(specifier)) return null;
  let directory = absolute ? "" : parentOf(from);
  const length = specifier.length;
  let start = absolute ? 1 : 0;
  for (let i = start; i <= length; i++) {
    const code = i < length ? charCodeAt(specifier, i) : SLASH;
    if (isRefused(code)) return null;
    if (code !== SLASH) continue;
    const segment = slice(specifier, start, i);
    start = i + 1;
    if (segment === "") return null;
    if (segment === ".") continue;
    if (segment === "..") {
      if (directory === "") return null;
      directory = parentOf(directory);
    } else {
      directory = directory === "" ? segment : directory + "/" + segment;
    }
  }
  return directory;
}

/** Why no module was found, for its author: `shown` is the specifier as it may be told. */
export function notFound(specifier, shown) {
  const isPath = charCodeAt(specifier, 0) === SLASH || charCodeAt(specifier, 0) === DOT;
  const hint = isPath ? "" : "; there are no packages and no built-in modules here: name a file of the bundle, as in \"./node.js\"";
  return "no module " + shown + " in the bundle" + hint;
}

function isRelative(specifier) {
  if (charCodeAt(specifier, 0) !== DOT) return false;
  const second = charCodeAt(specifier, 1);
  return second === SLASH || (second === DOT && charCodeAt(specifier, 2) === SLASH);
}

function isRefused(code) {
  return code === 0x5c || code === 0x3f || code === 0x23; // \ ? #
}

function parentOf(path) {
  for (let i = path.length - 1; i >= 0; i--) if (charCodeAt(path, i) === SLASH) return slice(path, 0, i);
  return "";
}

// host/imp.js: what `import()` of app code became. Reaches the modules of the bundle and nothing else (MW-11, MW-12);
// runs beside app code, so it keeps the rules of prim.js.
import { Err, JSONstringify, dataDesc, defineProperty, hasOwn, reject } from "./prim.js";
import { notFound, resolvePath } from "./resolve.js";
import { table } from "./table.js";

/**
 * `import(specifier, options)` in the module at path `from`. Always a promise, as the engine's own is: a specifier
 * without a text form rejects with what its conversion threw.
 */
export function $(from, specifier, options) {
  let text;
  try {
    text = `${specifier}`;
  } catch (error) {
    return reject(error);
  }
  if (options !== undefined) return refuse("unsupported_media_type", "import attributes are not supported");
  const path = resolvePath(from, text);
  if (path === null || !hasOwn(table, path)) {
    return refuse("module_not_found", notFound(text, JSONstringify(text)));
  }
  const load = table[path];
  if (load === null) return refuse("unsupported_media_type", JSONstringify(text) + " cannot be imported");
  return load();
}

function refuse(name, message) {
  const error = new Err(message);
  defineProperty(error, "name", dataDesc(name, false, true, true));
  return reject(error);
}
